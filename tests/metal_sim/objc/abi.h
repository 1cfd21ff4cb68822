// What clang emits for -fobjc-runtime=gnustep-2.0: the structures that __objc_load() gets, and those of blocks.
// Enough of an Objective-C runtime for ARC, blocks, properties and protocols; Debian has none that knows ARC.
#pragma once

#include <cstddef>
#include <cstdint>

namespace objc {

struct Class;
struct Object {
    Class *isa;
};
typedef Object *Id;
typedef void (*Imp)();

struct Selector {
    const char *name; // interned when loaded: equal selectors have equal pointers
    const char *types;
};
struct Method {
    Imp imp;
    Selector *selector;
    const char *types;
};
struct MethodList {
    MethodList *next;
    int count;
    size_t method_size;
    Method methods[];
};
struct Ivar {
    const char *name, *type;
    int *offset;
    uint32_t size, flags;
};
struct IvarList {
    int count;
    size_t ivar_size;
    Ivar ivars[];
};
struct Class {
    Class *isa, *super;
    const char *name;
    long version;
    unsigned long info;
    long instance_size; // negative: of its own instance variables, to be added to the superclass's
    IvarList *ivars;
    MethodList *methods;
    void *cache;
    Class *subclasses;
    Imp construct, destruct; // C++ instance variables
    Class *siblings;
    void *protocols, *extra;
    long abi_version;
    void *properties;
};
struct Category {
    const char *name, *class_name;
    MethodList *instance_methods, *class_methods;
    void *protocols, *properties, *class_properties;
};
// Begin and end of the sections that a module's metadata lie in.
struct Module {
    uint64_t version;
    Selector *selectors, *selectors_end;
    Class **classes, **classes_end;
    Class **class_refs, **class_refs_end;
    Category *categories, *categories_end;
    void *protocols[2], *protocol_refs[2], *aliases[2], *strings[2];
};
struct Super {
    Id receiver;
    Class *start;
};

constexpr uintptr_t tag_mask = 7; // a pointer with one of these bits is a tagged object
inline bool is_tagged(Id object) { return reinterpret_cast<uintptr_t>(object) & tag_mask; }

Class *class_of(Id object);
const char *intern(const char *name);
Imp find(Class *cls, const char *interned_name); // null: no such method

} // namespace objc

extern "C" {
objc::Imp objc_find_or_abort(objc::Id object, objc::Selector *selector); // of objc_msgSend
void objc_forget_weak(objc::Id object);
// What a test asserts: objects that live now, and the names of their classes with counts, one a line.
long objc_live_objects();
char *objc_live_classes(); // the caller frees it
void msl_objc_report(const char *text); // the fake Metal's list of findings
}
