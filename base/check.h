// base/check.h -- assertions against our own bugs (house style 30): WEFT_CHECK always, WEFT_DCHECK in debug
// and simulator builds. Never on anything a peer can send.
#pragma once

namespace weft {

/// Prints `file:line: check failed: expression: text` and aborts.
[[noreturn, gnu::cold]] void check_failed(const char* file, int line, const char* expression,
                                          const char* text) noexcept;

}  // namespace weft

#define WEFT_CHECK(condition, text)                               \
  do {                                                            \
    if (!(condition)) [[unlikely]]                                \
      ::weft::check_failed(__FILE__, __LINE__, #condition, text); \
  } while (false)

#if defined(NDEBUG) && !defined(WEFT_DEEP_CHECKS)
#define WEFT_DCHECK(condition, text) \
  do {                               \
  } while (false && (condition))
#else
#define WEFT_DCHECK(condition, text) WEFT_CHECK(condition, text)
#endif
