// How it works: Boost.Program_options splits the command line and the file into texts; ranges and numbers are
// checked here, because Boost's conversion accepts "-1" for an unsigned number.
#include "base/command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "base/parse_number.h"
#include "base/text_file.h"
#include "base/words.h"

namespace weft {
namespace {

namespace po = boost::program_options;

void write_line(int fd, const std::string& text) {
  const std::string line = text + "\n";
  [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
}

/// The long name of "fabric,f".
std::string long_name(const char* name) {
  const std::string text(name);
  return text.substr(0, text.find(','));
}

/// Thrown by setters; becomes the line of wrong_use().
struct WrongUse {
  std::string text;
};

}  // namespace

struct CommandLine::Impl {
  using Values = std::vector<std::string>;
  std::string program, usage, purpose;
  po::options_description options{"options"};
  std::map<std::string, std::function<void(const Values&)>> setters;
  std::vector<std::string>* words = nullptr;
  size_t words_lowest = 0;
  size_t words_highest = 0;
  std::string word_name;
  po::variables_map values;

  void add(const char* name, const char* value_name, const char* help, bool many,
           std::function<void(const Values&)> setter);
  template <class Number>
  void add_number(const char* name, const char* value_name, const char* help, Number& out, Number lowest,
                  Number highest);
  std::string help_text() const;
  po::variables_map read(const std::vector<std::string>& arguments);
  void read_file(const std::string& path, const po::options_description& known, po::variables_map& into);
  void apply(const po::variables_map& parsed);
  std::string unknown(const std::string& option) const;
};

void CommandLine::Impl::add(const char* name, const char* value_name, const char* help, bool many,
                            std::function<void(const Values&)> setter) {
  auto* value = po::value<Values>()->value_name(value_name);
  if (many) value->composing();
  options.add_options()(name, value, help);
  const std::string key = long_name(name);
  setters[key] = [key, many, setter = std::move(setter)](const Values& given) {
    if (!many && given.size() > 1) throw WrongUse{fmt::format("option --{} stands twice", key)};
    setter(given);
  };
}

template <class Number>
void CommandLine::Impl::add_number(const char* name, const char* value_name, const char* help, Number& out,
                                   Number lowest, Number highest) {
  add(name, value_name, help, false, [key = long_name(name), &out, lowest, highest](const Values& given) {
    const std::optional<uint64_t> value = parse_number<uint64_t>(given.back());
    if (!value || *value < lowest || *value > highest)
      throw WrongUse{fmt::format("option --{} needs a whole number from {} to {}, not '{}'", key, lowest,
                                 highest, given.back())};
    out = static_cast<Number>(*value);
  });
}

std::string CommandLine::Impl::help_text() const {
  std::ostringstream text;
  text << "usage: " << usage << "\n\n" << purpose << "\n\n" << options;
  return text.str();
}

void CommandLine::Impl::read_file(const std::string& path, const po::options_description& known,
                                  po::variables_map& into) {
  const Result<std::string> text = read_text_file(path);
  if (!text) throw WrongUse{"option --config: " + text.error().text};
  std::istringstream in(text.value());
  po::store(po::parse_config_file(in, known), into);
}

po::variables_map CommandLine::Impl::read(const std::vector<std::string>& arguments) {
  po::options_description all;
  all.add(options);
  all.add_options()("words-without-option", po::value<Values>());
  po::positional_options_description positional;
  positional.add("words-without-option", -1);
  po::variables_map parsed;
  po::command_line_parser parser(arguments);
  using style = po::command_line_style::style_t;
  parser.options(all).positional(positional).style(style::unix_style & ~style::allow_guessing);
  po::store(parser.run(), parsed);
  if (parsed.count("config") != 0) read_file(parsed["config"].as<Values>().back(), all, parsed);
  return parsed;
}

std::string CommandLine::Impl::unknown(const std::string& option) const {
  std::vector<std::string> known{"--help", "--version"};
  for (const auto& [name, setter] : setters) known.push_back("--" + name);
  return fmt::format("unknown option '{}'{}", option, suggestion(option, known));
}

void CommandLine::Impl::apply(const po::variables_map& parsed) {
  for (const auto& [name, setter] : setters)
    if (parsed.count(name) != 0) setter(parsed[name].as<Values>());
  const Values given =
      parsed.count("words-without-option") != 0 ? parsed["words-without-option"].as<Values>() : Values{};
  if (given.size() > words_highest)
    throw WrongUse{fmt::format("unexpected '{}'; usage: {}", given[words_highest], usage)};
  if (given.size() < words_lowest) throw WrongUse{fmt::format("{} is missing; usage: {}", word_name, usage)};
  if (words != nullptr) *words = given;
}

CommandLine::CommandLine(std::string program, std::string usage, std::string purpose)
    : impl_(std::make_unique<Impl>()) {
  impl_->program = std::move(program);
  impl_->usage = std::move(usage);
  impl_->purpose = std::move(purpose);
  impl_->options.add_options()("help,h", "prints this and ends")("version", "prints the version and ends");
  impl_->add("config", "FILE", "reads options from FILE, lines \"name = value\"", false,
             [](const Impl::Values&) {});
}

CommandLine::~CommandLine() = default;

void CommandLine::flag(const char* name, bool& out, const char* help) {
  impl_->options.add_options()(
      name, po::value<Impl::Values>()->zero_tokens()->implicit_value({"true"}, "true"), help);
  impl_->setters[long_name(name)] = [name, &out](const Impl::Values& given) {
    const std::string& word = given.back();
    if (word != "true" && word != "false") throw WrongUse{fmt::format("option {} is true or false", name)};
    out = word == "true";
  };
}

void CommandLine::text(const char* name, const char* value_name, std::string& out, const char* help) {
  impl_->add(name, value_name, help, false, [&out](const Impl::Values& given) { out = given.back(); });
}

void CommandLine::texts(const char* name, const char* value_name, std::vector<std::string>& out,
                        const char* help) {
  impl_->add(name, value_name, help, true, [&out](const Impl::Values& given) { out = given; });
}

void CommandLine::number(const char* name, const char* value_name, uint64_t& out, uint64_t lowest,
                         uint64_t highest, const char* help) {
  impl_->add_number(name, value_name, help, out, lowest, highest);
}

void CommandLine::number(const char* name, const char* value_name, uint32_t& out, uint32_t lowest,
                         uint32_t highest, const char* help) {
  impl_->add_number(name, value_name, help, out, lowest, highest);
}

void CommandLine::hex(const char* name, const char* value_name, uint64_t& out, const char* help) {
  impl_->add(name, value_name, help, false, [key = long_name(name), &out](const Impl::Values& given) {
    const std::optional<uint64_t> value = parse_hex<uint64_t>(given.back());
    if (!value)
      throw WrongUse{fmt::format("option --{} needs a hexadecimal number, not '{}'", key, given.back())};
    out = *value;
  });
}

void CommandLine::value(const char* name, const char* value_name, bool many, ValueReader take,
                        const char* help) {
  impl_->add(name, value_name, help, many,
             [key = long_name(name), take = std::move(take)](const Impl::Values& given) {
               for (const std::string& text : given)
                 if (const std::string fault = take(text); !fault.empty())
                   throw WrongUse{fmt::format("option --{} {}: {}", key, text, fault)};
             });
}

void CommandLine::words(const char* value_name, std::vector<std::string>& out, size_t lowest,
                        size_t highest) {
  impl_->word_name = value_name;
  impl_->words = &out;
  impl_->words_lowest = lowest;
  impl_->words_highest = highest;
}

std::optional<int> CommandLine::parse(int argc, const char* const* argv) {
  return parse(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

std::optional<int> CommandLine::parse(const std::vector<std::string>& arguments) {
  try {
    po::variables_map parsed = impl_->read(arguments);
    if (parsed.count("help") != 0) {
      write_line(STDOUT_FILENO, impl_->help_text());
      return 0;
    }
    if (parsed.count("version") != 0) {
      write_line(STDOUT_FILENO, fmt::format("{} {}", impl_->program, kProgramVersion));
      return 0;
    }
    impl_->apply(parsed);
    impl_->values = std::move(parsed);
    return std::nullopt;
  } catch (const WrongUse& fault) {
    return wrong_use(fault.text);
  } catch (const po::unknown_option& fault) {
    return wrong_use(impl_->unknown(fault.get_option_name()));
  } catch (const po::error& fault) {
    return wrong_use(fault.what());
  }
}

int CommandLine::wrong_use(std::string_view text) const {
  const char* stop = text.ends_with('?') ? "" : ";";
  write_line(STDERR_FILENO,
             fmt::format("{}: {}{} see {} --help", impl_->program, text, stop, impl_->program));
  return 2;
}

bool CommandLine::given(const std::string& name) const {
  return impl_->values.count(name) != 0;
}

}  // namespace weft
