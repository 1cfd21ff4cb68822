// The tables of a vocabulary and the two ways of encoding, for muser.text.
#include "bindings/bindings.h"
#include "bindings/unlocked.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings/gguf_value.h"
#include "gguf/text.h"
#include "text/bpe.h"
#include "text/spm.h"
#include "text/strings.h"
#include "text/utf8.h"

namespace muser::bindings {

namespace {

using text::BpeEncoder;
using text::SpmEncoder;
using text::StringIndex;
using text::Strings;

using Flags = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Scores = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// UTF-8 of a str, valid while the object lives. UnicodeEncodeError for a lone surrogate.
std::string_view utf8(nb::handle object) {
    Py_ssize_t size = 0;
    const char *data = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (!data)
        throw nb::python_error();
    return {data, static_cast<size_t>(size)};
}

std::shared_ptr<const Strings> make_strings(const nb::list &texts) {
    auto strings = std::make_shared<Strings>();
    for (nb::handle text : texts)
        strings->add(utf8(text));
    return strings;
}

std::string_view at(const Strings &strings, Py_ssize_t index) {
    if (index < 0 || static_cast<size_t>(index) >= strings.size())
        throw nb::index_error();
    return strings[static_cast<size_t>(index)];
}

// All of them at once where all are right: the whole is UTF-8, and no text begins inside a character.
std::optional<size_t> first_invalid(const Strings &strings) {
    bool valid = gguf::is_utf8(strings.all());
    for (size_t i = 0; valid && i < strings.size(); ++i)
        valid = strings[i].empty() || text::is_lead(strings[i].front());
    if (valid)
        return std::nullopt;
    for (size_t i = 0; i < strings.size(); ++i)
        if (!gguf::is_utf8(strings[i]))
            return i;
    return std::nullopt;
}

std::vector<size_t> starting_with(const Strings &strings, std::string_view prefix) {
    std::vector<size_t> found;
    for (size_t i = 0; i < strings.size(); ++i)
        if (strings[i].starts_with(prefix))
            found.push_back(i);
    return found;
}

std::shared_ptr<const StringIndex> make_index(const std::shared_ptr<const Strings> &strings) {
    Unlocked unlocked;
    return std::make_shared<StringIndex>(strings);
}

std::optional<int32_t> find(const StringIndex &index, nb::str text) {
    Py_ssize_t size = 0;
    const char *data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (!data)
        PyErr_Clear(); // a lone surrogate is in no vocabulary
    const int32_t number = data ? index.find({data, static_cast<size_t>(size)}) : -1;
    return number < 0 ? std::nullopt : std::optional(number);
}

text::Pieces pieces_of(const std::shared_ptr<const StringIndex> &index, const Flags &usable) {
    if (usable.size() != index->strings().size())
        throw parameter_error("usable", "must have one flag a token", static_cast<int64_t>(usable.size()));
    return {index, std::vector<bool>(usable.data(), usable.data() + usable.size())};
}

std::shared_ptr<SpmEncoder> make_spm(const std::shared_ptr<const StringIndex> &index, const Flags &usable, const Scores &scores,
                                     std::vector<int32_t> byte_ids, std::optional<int32_t> unknown) {
    if (scores.size() != index->strings().size())
        throw parameter_error("scores", "must have one score a token", static_cast<int64_t>(scores.size()));
    if (!byte_ids.empty() && byte_ids.size() != 256)
        throw parameter_error("byte_ids", "must be 256 or none", static_cast<int64_t>(byte_ids.size()));
    Unlocked unlocked;
    return std::make_shared<SpmEncoder>(pieces_of(index, usable), std::vector<double>(scores.data(), scores.data() + scores.size()),
                                        SpmEncoder::Fallback{std::move(byte_ids), unknown.value_or(-1)});
}

std::shared_ptr<BpeEncoder> make_bpe(const std::shared_ptr<const StringIndex> &index, const Flags &usable,
                                     const std::shared_ptr<const Strings> &merges, bool ignore_merges) {
    Unlocked unlocked;
    return std::make_shared<BpeEncoder>(pieces_of(index, usable), *merges, ignore_merges);
}

std::vector<int32_t> encode_words(const BpeEncoder &encoder, const nb::list &words) {
    std::vector<std::string_view> views;
    views.reserve(words.size());
    for (nb::handle word : words)
        views.push_back(utf8(word[0]));
    Unlocked unlocked;
    std::vector<int32_t> ids;
    for (const std::string_view view : views)
        encoder.encode(view, ids);
    return ids;
}

} // namespace

void init_text(nb::module_ &m) {
    nb::class_<Strings>(m, "Strings", "Texts by number, in one piece of memory. Immutable.")
        .def(nb::new_(&make_strings), nb::arg("texts"))
        .def("__len__", &Strings::size)
        .def("__getitem__", [](const Strings &self, Py_ssize_t index) { return to_python(at(self, index)); }, nb::arg("index"),
             "str; bytes where the text is not UTF-8.")
        .def("first_invalid", &first_invalid, "The number of the first text that is not UTF-8, or None.")
        .def("starting_with", &starting_with, nb::arg("prefix"), "The numbers of all texts that begin so, ascending.");

    nb::class_<StringIndex>(m, "StringIndex", "From a text to its number; empty texts have none.")
        .def(nb::new_(&make_index), nb::arg("strings"))
        .def("find", &find, nb::arg("text"), "None where there is none.")
        .def_prop_ro("duplicate", &StringIndex::duplicate, "Two numbers of the same text, or None.");

    nb::class_<SpmEncoder>(m, "SpmEncoder")
        .def(nb::new_(&make_spm), nb::arg("index"), nb::arg("usable"), nb::arg("scores"), nb::kw_only(), nb::arg("byte_ids"),
             nb::arg("unknown").none())
        .def("encode", [](const SpmEncoder &self, nb::str text) {
            const std::string_view view = utf8(text);
            Unlocked unlocked;
            return self.encode(view);
        }, nb::arg("text"), "Token ids. Any number of threads at once.");

    nb::class_<BpeEncoder>(m, "BpeEncoder")
        .def(nb::new_(&make_bpe), nb::arg("index"), nb::arg("usable"), nb::arg("merges"), nb::kw_only(), nb::arg("ignore_merges"))
        .def_prop_ro("broken_merge", &BpeEncoder::broken_merge, "The number of the first merge that is none, or None.")
        .def("encode", &encode_words, nb::arg("words"),
             "Token ids of words in the byte alphabet: a list of tuples that begin with one. Any number of threads at once.");
}

} // namespace muser::bindings
