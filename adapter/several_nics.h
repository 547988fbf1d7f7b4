// adapter/several_nics.h -- what an adapter has only in a computer with several NICs (docs/key_migration.md).
#pragma once

#include <cstdint>
#include <span>

#include "adapter/key_questions.h"
#include "adapter/transport/ways.h"

namespace weft::adapter {

/// Owner: AdapterParts.
struct SeveralNics {
  SeveralNics(Engine& engine, CellWriter& writer, std::span<const uint8_t> nics)
      : questions(engine, nics), ways(engine, writer) {}

  KeyQuestions questions;  // keys that the arriving NIC does not know
  Ways ways;               // which QPs look for another way to their peer
};

}  // namespace weft::adapter
