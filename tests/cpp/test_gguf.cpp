// The parts of the GGUF reader that Python does not reach: typed look-ups, mapped files, text helpers.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "core/error.h"
#include "core/mapped_file.h"
#include "gguf/file.h"
#include "gguf/text.h"

using namespace muser;

namespace {

struct TemporaryFile {
    std::string path;
    explicit TemporaryFile(const std::string &content) {
        path = (std::filesystem::temp_directory_path() / ("muser-test-" + std::to_string(::getpid()))).string();
        std::ofstream(path, std::ios::binary) << content;
    }
    ~TemporaryFile() { std::remove(path.c_str()); }
};

template <class T> std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

std::string text(const std::string &value) { return raw<uint64_t>(value.size()) + value; }

std::string header(uint64_t n_tensors, uint64_t n_entries) {
    return "GGUF" + raw<uint32_t>(3) + raw(n_tensors) + raw(n_entries);
}

// Code, message and offset of the error that body throws.
template <class Body> Error error_of(Body body) {
    try {
        body();
    } catch (const Error &error) {
        return error;
    }
    FAIL("no error was thrown");
    return Error(ErrorCode::internal, "");
}

} // namespace

TEST_CASE("typed look-ups convert, are empty for a missing key, and refuse another type") {
    const TemporaryFile file(header(0, 6) + text("u8") + raw<uint32_t>(0) + raw<uint8_t>(7) +      //
                             text("i32") + raw<uint32_t>(5) + raw<int32_t>(8) +                    //
                             text("minus") + raw<uint32_t>(5) + raw<int32_t>(-1) +                 //
                             text("f32") + raw<uint32_t>(6) + raw<float>(0.5f) +                   //
                             text("bool") + raw<uint32_t>(7) + raw<uint8_t>(1) +                   //
                             text("text") + raw<uint32_t>(8) + text("words"));
    const auto model = gguf::Model::open(file.path);
    CHECK(model->get_uint("u8") == 7u);
    CHECK(model->get_uint("i32") == 8u);
    CHECK(model->get_float("f32") == 0.5);
    CHECK(model->get_bool("bool") == true);
    CHECK(model->get_string("text") == "words");
    CHECK(!model->get_uint("none"));
    CHECK(!model->get_float("none"));
    CHECK(!model->get_bool("none"));
    CHECK(!model->get_string("none"));
    CHECK(model->find("none") == nullptr);
    CHECK(model->find_tensor("none") == nullptr);

    const Error negative = error_of([&] { (void)model->get_uint("minus"); });
    CHECK(negative.code() == ErrorCode::model_format);
    CHECK(negative.message().find("key 'minus' is negative: -1") != std::string::npos);
    CHECK(negative.fields().at(0) == Error::Field{"path", file.path});
    CHECK(negative.fields().at(1) == Error::Field{"offset", static_cast<int64_t>(model->find("minus")->offset)});
    CHECK(error_of([&] { (void)model->get_uint("f32"); }).code() == ErrorCode::model_format);
    CHECK(error_of([&] { (void)model->get_uint("bool"); }).code() == ErrorCode::model_format);
    CHECK(error_of([&] { (void)model->get_float("u8"); }).code() == ErrorCode::model_format);
    CHECK(error_of([&] { (void)model->get_bool("u8"); }).code() == ErrorCode::model_format);
    CHECK(error_of([&] { (void)model->get_string("u8"); }).code() == ErrorCode::model_format);
}

TEST_CASE("releasing any range of a mapped file changes none of its bytes") {
    std::string content(5 * 4096 + 17, '\0');
    for (size_t i = 0; i < content.size(); ++i)
        content[i] = static_cast<char>(i * 131 >> 3);
    const TemporaryFile file(content);
    const MappedFile mapped(file.path);
    const auto bytes = mapped.bytes();
    REQUIRE(bytes.size() == content.size());
    for (const auto &[offset, length] : {std::pair<size_t, size_t>{0, content.size()}, {1, 4096}, {4096, 8192}, {20480, 17}, {7, 0}}) {
        mapped.release(bytes.subspan(offset, length));
        CHECK(std::memcmp(bytes.data(), content.data(), content.size()) == 0);
    }
    static const std::byte elsewhere[8192] = {};
    mapped.release(elsewhere); // not of this file: no effect
    CHECK(elsewhere[5000] == std::byte{0});
}

TEST_CASE("an empty file maps to no bytes; a directory is refused with its path") {
    const TemporaryFile file("");
    CHECK(MappedFile(file.path).bytes().empty());
    const std::string folder = std::filesystem::temp_directory_path().string();
    const Error error = error_of([&] { MappedFile mapped(folder); });
    CHECK(error.code() == ErrorCode::io);
    CHECK(error.message() == folder + ": Is a directory");
}

TEST_CASE("is_utf8 accepts exactly the well-formed sequences") {
    // Every code point, against the encoding rule written the other way round.
    for (uint32_t code = 0; code < 0x110000; code += code < 0x3000 ? 1 : 37) {
        std::string encoded;
        if (code < 0x80)
            encoded = {static_cast<char>(code)};
        else if (code < 0x800)
            encoded = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
        else if (code < 0x10000)
            encoded = {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
                       static_cast<char>(0x80 | (code & 63))};
        else
            encoded = {static_cast<char>(0xf0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 63)),
                       static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
        const bool surrogate = code >= 0xd800 && code < 0xe000;
        CHECK_MESSAGE(gguf::is_utf8(encoded) == !surrogate, code);
        if (encoded.size() > 1) {
            CHECK(!gguf::is_utf8(encoded.substr(0, encoded.size() - 1)));
            CHECK(!gguf::is_utf8(encoded.substr(1)));
        }
    }
    for (const char *bad : {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
        CHECK(!gguf::is_utf8(bad));
        for (size_t before = 0; before < 18; ++before) // wherever it stands among words of ASCII
            for (const std::string good : {"", "é", "€"}) {
                const std::string text = std::string(before, 'a') + good + "tail of it";
                CHECK(gguf::is_utf8(text));
                CHECK(!gguf::is_utf8(text.substr(0, before) + bad + text.substr(before)));
                CHECK(!gguf::is_utf8(text + bad));
            }
    }
}

TEST_CASE("quoted text is short, printable and valid UTF-8 for any bytes") {
    CHECK(gguf::quoted("blk.0") == "'blk.0'");
    CHECK(gguf::quoted("é\x01\xff") == "'é\\x01\\xff'");
    CHECK(gguf::quoted("\xc2\x9b" "31m") == "'\\xc2\\x9b31m'");
    CHECK(gguf::quoted(std::string_view("\0", 1)) == "'\\x00'");
    std::string bytes;
    for (int i = 0; i < 20000; ++i) {
        bytes.push_back(static_cast<char>(i * 7919 >> 5));
        const std::string shown = gguf::quoted(std::string_view(bytes).substr(bytes.size() > 90 ? bytes.size() - 90 : 0));
        CHECK(gguf::is_utf8(shown));
        CHECK(shown.size() <= 4 * 84 + 5);
    }
}
