// The part of Foundation that Metal host code of this project uses, by hand. Compiles for Linux (where fake/ implements
// it) and for arm64 macOS (where the real framework does); tests/test_metal_sim_macos.py compares it with Apple's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef YES
typedef bool BOOL;
#define YES ((BOOL)1)
#define NO ((BOOL)0)
#endif
#ifndef nil
#define nil nullptr
#endif
typedef unsigned long NSUInteger;
typedef long NSInteger;
typedef double NSTimeInterval;
typedef struct _NSRange {
    NSUInteger location, length;
} NSRange;
static inline NSRange NSMakeRange(NSUInteger location, NSUInteger length) { return NSRange{location, length}; }

#define NS_ENUM(T, NAME) \
    enum NAME : T NAME;  \
    enum NAME : T
#define NS_OPTIONS(T, NAME) \
    T NAME;                 \
    enum : T
#define NS_ASSUME_NONNULL_BEGIN _Pragma("clang assume_nonnull begin")
#define NS_ASSUME_NONNULL_END _Pragma("clang assume_nonnull end")
// Clang knows it on macOS alone, where a call without a guard is then an error of the project's build.
#define API_AVAILABLE_MACOS(VERSION) __attribute__((availability(macos, introduced = VERSION)))
#define NS_RETURNS_RETAINED __attribute__((ns_returns_retained))

@class NSString, NSError, NSURL;

@protocol NSObject
- (instancetype)retain;
- (BOOL)isKindOfClass:(Class)aClass;
- (BOOL)respondsToSelector:(SEL)aSelector;
- (BOOL)isEqual:(id)object;
- (NSUInteger)hash;
- (NSString *)description;
@end

__attribute__((objc_root_class)) @interface NSObject <NSObject> {
    Class isa;
}
+ (instancetype)alloc;
+ (instancetype)new;
- (instancetype)init;
+ (Class)class;
- (Class)class;
@end

@protocol NSCopying
@end

typedef NSUInteger NSStringEncoding;
enum : NSStringEncoding { NSUTF8StringEncoding = 4 };

@interface NSString : NSObject <NSCopying>
+ (instancetype)stringWithUTF8String:(const char *)string;
- (instancetype)initWithBytes:(const void *)bytes length:(NSUInteger)length encoding:(NSStringEncoding)encoding;
- (const char *)UTF8String;
- (NSUInteger)length;
- (BOOL)isEqualToString:(NSString *)string;
@end

// Literals of Objective-C source: @"...".
@interface NSConstantString : NSString {
  @public
    uint32_t flags, character_count, byte_count, hash_value;
    const char *data;
}
@end

typedef NSString *NSErrorDomain;
@interface NSError : NSObject
+ (instancetype)errorWithDomain:(NSErrorDomain)domain code:(NSInteger)code userInfo:(id)userInfo;
@property(readonly) NSInteger code;
@property(readonly, copy) NSErrorDomain domain;
@property(readonly, copy) NSString *localizedDescription;
@end

@interface NSURL : NSObject <NSCopying>
+ (instancetype)fileURLWithPath:(NSString *)path;
@property(readonly, copy) NSString *path;
@end

typedef struct {
    NSInteger majorVersion, minorVersion, patchVersion;
} NSOperatingSystemVersion;
@interface NSProcessInfo : NSObject
@property(class, readonly, strong) NSProcessInfo *processInfo;
@property(readonly) NSOperatingSystemVersion operatingSystemVersion;
- (BOOL)isOperatingSystemAtLeastVersion:(NSOperatingSystemVersion)version;
@end

extern "C" void NSLog(NSString *format, ...);
