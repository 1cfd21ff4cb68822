// NSObject and the few classes of Foundation.h, without ARC: these are what retain and release mean.
#import <Foundation/Foundation.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "../runtime/reports.h"

extern "C" {
id class_createInstance(Class cls, size_t extra);
id object_dispose(id object);
id objc_retain_object(id object);
void objc_release_object(id object);
id objc_autorelease(id object);
Class object_getClass(id object);
Class class_getSuperclass(Class cls);
const char *class_getName(Class cls);
bool class_respondsToSelector(Class cls, SEL selector);
bool objc_registerSmallObjectClass_np(Class cls, uintptr_t tag);
}

@interface NSObject (Memory)
- (void)release;
- (id)autorelease;
- (void)dealloc;
- (id)copy;
@end

@implementation NSObject
+ (instancetype)alloc {
    return class_createInstance(static_cast<Class>(self), 0);
}
+ (instancetype)new {
    return [[self alloc] init];
}
+ (Class)class {
    return static_cast<Class>(self);
}
+ (id)retain {
    return self;
}
+ (void)release {
}
- (instancetype)init {
    return self;
}
- (Class)class {
    return object_getClass(self);
}
- (instancetype)retain {
    return objc_retain_object(self);
}
- (void)release {
    objc_release_object(self);
}
- (id)autorelease {
    return objc_autorelease(self);
}
- (id)copy { // what is copied here never changes after it was handed over
    return [self retain];
}
- (void)dealloc {
    object_dispose(self);
}
- (BOOL)isKindOfClass:(Class)wanted {
    for (Class c = object_getClass(self); c; c = class_getSuperclass(c))
        if (c == wanted) return YES;
    return NO;
}
- (BOOL)respondsToSelector:(SEL)selector {
    return class_respondsToSelector(object_getClass(self), selector);
}
- (BOOL)isEqual:(id)object {
    return self == object;
}
- (NSUInteger)hash {
    return reinterpret_cast<NSUInteger>(self);
}
- (NSString *)description {
    return [NSString stringWithUTF8String:class_getName(object_getClass(self))];
}
@end

@interface FakeString : NSString {
  @public
    std::string text;
}
@end

@implementation NSString
+ (instancetype)stringWithUTF8String:(const char *)string {
    FakeString *made = [FakeString alloc];
    made->text = string;
    return [made autorelease];
}
- (instancetype)initWithBytes:(const void *)bytes length:(NSUInteger)length encoding:(NSStringEncoding)encoding {
    if (encoding != NSUTF8StringEncoding) msl::report("the fake NSString knows UTF-8 alone");
    FakeString *made = [FakeString alloc];
    made->text.assign(static_cast<const char *>(bytes), length);
    [self release];
    return made;
}
- (const char *)UTF8String { // only an NSString that waits for its init has no text of its own
    abort();
}
- (NSUInteger)length {
    return strlen([self UTF8String]);
}
- (BOOL)isEqualToString:(NSString *)other {
    return strcmp([self UTF8String], [other UTF8String]) == 0;
}
- (BOOL)isEqual:(id)other {
    return [other isKindOfClass:[NSString class]] && [self isEqualToString:other];
}
- (NSString *)description {
    return self;
}
@end
@implementation FakeString
- (const char *)UTF8String {
    return text.c_str();
}
@end
@implementation NSConstantString
- (const char *)UTF8String {
    return data;
}
- (instancetype)retain {
    return self;
}
- (void)release {
}
- (id)autorelease {
    return self;
}
@end

// In this ABI a literal of up to eight ASCII characters is no object but a tagged pointer: seven bits a character.
@interface FakeTinyString : NSString
@end
@implementation FakeTinyString
+ (void)load {
    objc_registerSmallObjectClass_np(static_cast<Class>(self), 4);
}
- (const char *)UTF8String {
    static thread_local char ring[16][9];
    static thread_local unsigned next;
    const uintptr_t bits = reinterpret_cast<uintptr_t>(self);
    char *text = ring[next++ % 16];
    const unsigned length = bits >> 3 & 31;
    for (unsigned i = 0; i < length; ++i) text[i] = static_cast<char>(bits >> (57 - 7 * i) & 127);
    text[length] = 0;
    return text;
}
- (instancetype)retain {
    return self;
}
- (void)release {
}
- (id)autorelease {
    return self;
}
@end

@implementation NSError {
    NSInteger _code;
    NSString *_domain, *_text;
}
+ (instancetype)errorWithDomain:(NSErrorDomain)domain code:(NSInteger)code userInfo:(id)userInfo {
    NSError *error = [NSError new];
    error->_code = code;
    error->_domain = [domain retain];
    error->_text = [userInfo retain]; // the fake's own callers pass the text
    return [error autorelease];
}
- (NSInteger)code {
    return _code;
}
- (NSErrorDomain)domain {
    return _domain;
}
- (NSString *)localizedDescription {
    return _text;
}
- (NSString *)description {
    return _text;
}
- (void)dealloc {
    [_domain release];
    [_text release];
    [super dealloc];
}
@end

@implementation NSURL {
    NSString *_path;
}
+ (instancetype)fileURLWithPath:(NSString *)path {
    NSURL *url = [NSURL new];
    url->_path = [path retain];
    return [url autorelease];
}
- (NSString *)path {
    return _path;
}
- (void)dealloc {
    [_path release];
    [super dealloc];
}
@end

@implementation NSProcessInfo
+ (NSProcessInfo *)processInfo {
    return [[NSProcessInfo new] autorelease];
}
- (NSOperatingSystemVersion)operatingSystemVersion {
    return {15, 0, 0};
}
- (BOOL)isOperatingSystemAtLeastVersion:(NSOperatingSystemVersion)version {
    return version.majorVersion <= 15;
}
@end

extern "C" void NSLog(NSString *format, ...) { // writes what it can: the format, and an object for a single %@
    va_list arguments;
    va_start(arguments, format);
    const char *text = [format UTF8String];
    if (strcmp(text, "%@") == 0) text = [[va_arg(arguments, id) description] UTF8String];
    va_end(arguments);
    fprintf(stderr, "%s\n", text);
}
