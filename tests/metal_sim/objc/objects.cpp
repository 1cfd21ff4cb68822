// Objects: making, counting references, weak references, autorelease pools, and the functions that ARC calls.
//
// The count lies in front of the object and is one less than its owners, as in libobjc2.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi.h"

using objc::Class;
using objc::Id;
using objc::Selector;

extern "C" {
extern void *_NSConcreteStackBlock[32];
extern void *_NSConcreteGlobalBlock[32];
extern void *_NSConcreteMallocBlock[32];
void *_Block_copy(const void *block);
void _Block_release(const void *block);
}

namespace {

constexpr size_t header = 16;

std::atomic<long> &count_of(Id object) {
    return *reinterpret_cast<std::atomic<long> *>(reinterpret_cast<char *>(object) - header);
}

bool is_block(Id object) {
    const void *isa = object->isa;
    return isa == _NSConcreteStackBlock || isa == _NSConcreteGlobalBlock || isa == _NSConcreteMallocBlock;
}

struct Live {
    std::mutex mutex;
    std::map<std::string, long> classes;
    long total = 0;
    std::unordered_map<Id, std::set<Id *>> weak; // the variables that refer to an object
};
Live &live() {
    static Live *all = new Live;
    return *all;
}

void count(Class *cls, long by) {
    const std::lock_guard lock(live().mutex);
    live().classes[cls->name] += by;
    live().total += by;
}

// Autoreleased objects of the thread; pools are marks in the list.
thread_local std::vector<Id> autoreleased;
thread_local int pools = 0;

template <class Result> Result send(Id object, const char *name) {
    Selector selector{objc::intern(name), ""};
    return reinterpret_cast<Result (*)(Id, Selector *)>(objc_find_or_abort(object, &selector))(object, &selector);
}

[[noreturn]] void die(const char *what, Id object) {
    fprintf(stderr, "%s: %p\n", what, static_cast<void *>(object));
    abort();
}

} // namespace

extern "C" {

Id class_createInstance(Class *cls, size_t extra) {
    char *memory = static_cast<char *>(calloc(1, header + static_cast<size_t>(cls->instance_size) + extra));
    Id object = reinterpret_cast<Id>(memory + header);
    object->isa = cls;
    std::vector<Class *> chain;
    for (Class *c = cls; c; c = c->super) chain.push_back(c);
    for (auto c = chain.rbegin(); c != chain.rend(); ++c)
        if ((*c)->construct) reinterpret_cast<Id (*)(Id, Selector *)>((*c)->construct)(object, nullptr);
    count(cls, 1);
    return object;
}

Id object_dispose(Id object) {
    for (Class *c = object->isa; c; c = c->super)
        if (c->destruct) reinterpret_cast<void (*)(Id, Selector *)>(c->destruct)(object, nullptr);
    count(object->isa, -1);
    static Class *freed = new Class{}; // without a cache: a message to it is an error
    object->isa = freed;
    free(reinterpret_cast<char *>(object) - header);
    return nullptr;
}

Id objc_alloc(Class *cls) { return send<Id>(reinterpret_cast<Id>(cls), "alloc"); }
Id objc_alloc_init(Class *cls) { return send<Id>(objc_alloc(cls), "init"); }

// What NSObject's retain and release do.
Id objc_retain_object(Id object) {
    count_of(object).fetch_add(1, std::memory_order_relaxed);
    return object;
}
void objc_release_object(Id object) {
    const long before = count_of(object).fetch_sub(1, std::memory_order_acq_rel);
    if (before < 0) die("released once too often", object);
    if (before > 0) return;
    objc_forget_weak(object);
    send<void>(object, "dealloc");
}

Id objc_retain(Id object) {
    if (!object || objc::is_tagged(object)) return object;
    if (is_block(object)) return static_cast<Id>(_Block_copy(object));
    return send<Id>(object, "retain");
}
void objc_release(Id object) {
    if (!object || objc::is_tagged(object)) return;
    if (is_block(object))
        _Block_release(object);
    else
        send<void>(object, "release");
}
Id objc_retainBlock(Id block) { return block ? static_cast<Id>(_Block_copy(block)) : nullptr; }

void *objc_autoreleasePoolPush() {
    ++pools;
    return reinterpret_cast<void *>(autoreleased.size() + 1);
}
void objc_autoreleasePoolPop(void *mark) {
    --pools;
    const size_t size = reinterpret_cast<size_t>(mark) - 1;
    while (autoreleased.size() > size) {
        Id object = autoreleased.back();
        autoreleased.pop_back();
        objc_release(object);
    }
}
Id objc_autorelease(Id object) {
    if (!object || objc::is_tagged(object)) return object;
    if (!pools)
        msl_objc_report((std::string("an object of ") + objc::class_of(object)->name +
                         " is autoreleased on a thread without a pool: it leaks").c_str());
    autoreleased.push_back(object);
    return object;
}
Id objc_autoreleaseReturnValue(Id object) { return objc_autorelease(object); }
Id objc_retainAutorelease(Id object) { return objc_autorelease(objc_retain(object)); }
Id objc_retainAutoreleaseReturnValue(Id object) { return objc_retainAutorelease(object); }
Id objc_retainAutoreleasedReturnValue(Id object) { return objc_retain(object); }
Id objc_unsafeClaimAutoreleasedReturnValue(Id object) { return object; }

void objc_storeStrong(Id *variable, Id object) {
    objc_retain(object);
    Id old = *variable;
    *variable = object;
    objc_release(old);
}

// ---- weak variables
void objc_forget_weak(Id object) {
    const std::lock_guard lock(live().mutex);
    const auto found = live().weak.find(object);
    if (found == live().weak.end()) return;
    for (Id *variable : found->second) *variable = nullptr;
    live().weak.erase(found);
}
Id objc_storeWeak(Id *variable, Id object) {
    const std::lock_guard lock(live().mutex);
    if (*variable) {
        const auto found = live().weak.find(*variable);
        if (found != live().weak.end()) found->second.erase(variable);
    }
    if (object && !objc::is_tagged(object)) live().weak[object].insert(variable);
    return *variable = object;
}
Id objc_initWeak(Id *variable, Id object) {
    *variable = nullptr;
    return objc_storeWeak(variable, object);
}
void objc_destroyWeak(Id *variable) { objc_storeWeak(variable, nullptr); }
Id objc_loadWeakRetained(Id *variable) {
    const std::lock_guard lock(live().mutex);
    Id object = *variable;
    if (!object || objc::is_tagged(object)) return object;
    long owners = count_of(object).load();
    while (owners >= 0) // negative: the last owner is gone, dealloc runs
        if (count_of(object).compare_exchange_weak(owners, owners + 1)) return object;
    return nullptr;
}
Id objc_loadWeak(Id *variable) { return objc_autorelease(objc_loadWeakRetained(variable)); }
void objc_copyWeak(Id *to, Id *from) {
    Id object = objc_loadWeakRetained(from);
    objc_initWeak(to, object);
    objc_release(object);
}
void objc_moveWeak(Id *to, Id *from) {
    objc_copyWeak(to, from);
    objc_destroyWeak(from);
}

// ---- properties
Id objc_getProperty(Id object, Selector *, ptrdiff_t offset, bool) {
    return objc_autorelease(objc_retain(*reinterpret_cast<Id *>(reinterpret_cast<char *>(object) + offset)));
}
void objc_setProperty(Id object, Selector *, ptrdiff_t offset, Id value, bool, bool copy) {
    Id *variable = reinterpret_cast<Id *>(reinterpret_cast<char *>(object) + offset);
    Id old = *variable;
    if (!value || objc::is_tagged(value))
        *variable = value;
    else if (copy && !is_block(value))
        *variable = send<Id>(value, "copy");
    else
        *variable = objc_retain(value);
    objc_release(old);
}
void objc_setProperty_atomic(Id o, Selector *s, Id v, ptrdiff_t at) { objc_setProperty(o, s, at, v, true, false); }
void objc_setProperty_nonatomic(Id o, Selector *s, Id v, ptrdiff_t at) { objc_setProperty(o, s, at, v, false, false); }
void objc_setProperty_atomic_copy(Id o, Selector *s, Id v, ptrdiff_t at) { objc_setProperty(o, s, at, v, true, true); }
void objc_setProperty_nonatomic_copy(Id o, Selector *s, Id v, ptrdiff_t at) { objc_setProperty(o, s, at, v, false, true); }
void objc_copyStruct(void *to, const void *from, ptrdiff_t bytes, bool, bool) { memcpy(to, from, static_cast<size_t>(bytes)); }
void objc_copyPropertyStruct(void *to, void *from, ptrdiff_t bytes, bool, bool) { memcpy(to, from, static_cast<size_t>(bytes)); }
void objc_getPropertyStruct(void *to, void *from, ptrdiff_t bytes, bool, bool) { memcpy(to, from, static_cast<size_t>(bytes)); }
void objc_setPropertyStruct(void *to, void *from, ptrdiff_t bytes, bool, bool) { memcpy(to, from, static_cast<size_t>(bytes)); }

long objc_live_objects() {
    const std::lock_guard lock(live().mutex);
    return live().total;
}
char *objc_live_classes() {
    const std::lock_guard lock(live().mutex);
    std::string text;
    for (const auto &[name, n] : live().classes)
        if (n) text += name + " " + std::to_string(n) + "\n";
    return strdup(text.c_str());
}
}
