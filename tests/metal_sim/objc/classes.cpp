// Loading of classes and categories, and the search for methods.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi.h"

namespace objc {
namespace {

typedef std::unordered_map<const char *, Imp> Cache;

struct Runtime {
    std::recursive_mutex mutex;
    std::unordered_map<std::string, const char *> names;
    std::unordered_map<std::string, Class *> classes;
    Class *tagged[tag_mask + 1] = {};
};
Runtime &runtime() { // made at first use: modules load before static constructors run
    static Runtime *all = new Runtime;
    return *all;
}

template <class Visit> void each_method(MethodList *list, Visit visit) {
    for (; list; list = list->next)
        for (int i = 0; i < list->count; ++i) visit(list->methods[i]);
}

void intern_all(MethodList *list) {
    each_method(list, [](Method &method) { method.selector->name = intern(method.selector->name); });
}

Imp find_own(Class *cls, const char *name) {
    Imp found = nullptr;
    each_method(cls->methods, [&](Method &method) {
        if (!found && method.selector->name == name) found = method.imp;
    });
    return found;
}

// Instance variables follow those of the superclass, whose size is known only now.
void place_ivars(Class *cls) {
    const long inherited = cls->super ? (cls->super->instance_size + 7) & ~7L : 0;
    if (cls->instance_size > 0) return;
    cls->instance_size = inherited - cls->instance_size;
    for (int i = 0; cls->ivars && i < cls->ivars->count; ++i) {
        char *at = reinterpret_cast<char *>(cls->ivars->ivars) + static_cast<size_t>(i) * cls->ivars->ivar_size;
        *reinterpret_cast<Ivar *>(at)->offset += static_cast<int>(inherited);
    }
}

void resolve(Class *cls) {
    if (cls->cache) return;
    if (cls->super) resolve(cls->super);
    place_ivars(cls);
    cls->construct = find_own(cls, intern(".cxx_construct"));
    cls->destruct = find_own(cls, intern(".cxx_destruct"));
    cls->cache = new Cache;
    cls->isa->cache = new Cache;
    cls->isa->super = cls->super ? cls->super->isa : cls;
    Class *root = cls;
    while (root->super) root = root->super;
    cls->isa->isa = root->isa;
}

void add_methods(Class *cls, MethodList *list) {
    if (!list) return;
    intern_all(list);
    MethodList *last = list;
    while (last->next) last = last->next;
    last->next = cls->methods;
    cls->methods = list;
    static_cast<Cache *>(cls->cache)->clear();
}

} // namespace

const char *intern(const char *name) {
    const std::lock_guard lock(runtime().mutex);
    const char *&kept = runtime().names[name];
    if (!kept) kept = strdup(name);
    return kept;
}

Class *class_of(Id object) {
    return is_tagged(object) ? runtime().tagged[reinterpret_cast<uintptr_t>(object) & tag_mask] : object->isa;
}

Imp find(Class *cls, const char *name) {
    const std::lock_guard lock(runtime().mutex);
    auto &cache = *static_cast<Cache *>(cls->cache);
    if (const auto found = cache.find(name); found != cache.end()) return found->second;
    for (Class *at = cls; at; at = at->super)
        if (const Imp imp = find_own(at, name)) return cache[name] = imp;
    return nullptr;
}

} // namespace objc

using objc::Class;
using objc::Id;
using objc::Imp;
using objc::Selector;

extern "C" {

void __objc_load(objc::Module *module) {
    const std::lock_guard lock(objc::runtime().mutex);
    for (Selector *s = module->selectors; s < module->selectors_end; ++s)
        if (s->name) s->name = objc::intern(s->name);
    std::vector<Class *> loaded;
    for (Class **c = module->classes; c < module->classes_end; ++c) {
        if (!*c) continue;
        objc::runtime().classes[(*c)->name] = *c;
        loaded.push_back(*c);
        objc::intern_all((*c)->methods);
        objc::intern_all((*c)->isa->methods);
    }
    for (Class *cls : loaded) objc::resolve(cls);
    for (objc::Category *c = module->categories; c < module->categories_end; ++c) {
        if (!c->name) continue;
        Class *cls = objc::runtime().classes[c->class_name];
        if (!cls) continue;
        objc::add_methods(cls, c->instance_methods);
        objc::add_methods(cls->isa, c->class_methods);
    }
    static Selector load{objc::intern("load"), "v16@0:8"};
    for (Class *cls : loaded)
        if (const Imp imp = objc::find_own(cls->isa, load.name)) reinterpret_cast<void (*)(Class *, Selector *)>(imp)(cls, &load);
}

Imp objc_find_or_abort(Id object, Selector *selector) {
    Class *cls = objc::class_of(object);
    const Imp imp = cls && cls->cache ? objc::find(cls, selector->name) : nullptr;
    if (!imp) {
        fprintf(stderr, "unrecognized selector %s sent to %p (%s)\n", selector->name, static_cast<void *>(object),
                cls && cls->cache ? cls->name : "no object, or a freed one");
        abort();
    }
    return imp;
}
Imp objc_msg_lookup_super(objc::Super *super, Selector *selector) { return objc::find(super->start, selector->name); }

Class *objc_lookup_class(const char *name) { return objc::runtime().classes[name]; }
Class *objc_getClass(const char *name) { return objc_lookup_class(name); }
Class *object_getClass(Id object) { return object ? objc::class_of(object) : nullptr; }
Class *class_getSuperclass(Class *cls) { return cls->super == cls ? nullptr : cls->super; }
const char *class_getName(Class *cls) { return cls->name; }
bool class_respondsToSelector(Class *cls, Selector *selector) { return objc::find(cls, selector->name) != nullptr; }
bool objc_registerSmallObjectClass_np(Class *cls, uintptr_t tag) {
    objc::runtime().tagged[tag & objc::tag_mask] = cls;
    return true;
}
void objc_enumerationMutation(Id) {
    fprintf(stderr, "a collection was changed while it was enumerated\n");
    abort();
}
}
