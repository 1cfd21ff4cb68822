// The Objective-C runtime alone, on whatever processor: messages with many arguments and large results, properties, weak
// variables, categories, exceptions through frames, autorelease pools. Exit status 0: all right.
#import <Foundation/Foundation.h>

#include <stdexcept>

extern "C" {
long objc_live_objects();
// Nothing here makes blocks; the runtime asks whether an object is one.
void *_NSConcreteStackBlock[32], *_NSConcreteGlobalBlock[32], *_NSConcreteMallocBlock[32];
void *_Block_copy(const void *) { return nullptr; }
void _Block_release(const void *) {}
void msl_objc_report(const char *) {}
}

struct Large {
    long a, b, c;
};

@interface Node : NSObject {
  @public
    int value;
}
@property(nonatomic, strong) Node *next;
@property(nonatomic, weak) Node *previous;
- (double)sum:(double)a b:(int)b c:(float)c d:(long)d e:(double)e f:(int)f g:(int)g h:(int)h;
- (Large)large:(long)base;
- (void)fail;
@end
@implementation Node
- (double)sum:(double)a b:(int)b c:(float)c d:(long)d e:(double)e f:(int)f g:(int)g h:(int)h {
    return a + b + static_cast<double>(c) + static_cast<double>(d) + e + f + g + h + value;
}
- (Large)large:(long)base {
    return {base, base + 1, base + value};
}
- (void)fail {
    throw std::runtime_error("through");
}
@end
@interface Node (More)
- (int)twice;
@end
@implementation Node (More)
- (int)twice {
    return 2 * value;
}
@end

namespace {

int check() {
    Node *node = [Node new], *other = [Node new];
    node->value = 1000;
    if ([node sum:1.5 b:2 c:3.5f d:4 e:5 f:6 g:7 h:8] != 1037) return 1;
    const Large large = [node large:7];
    if (large.a != 7 || large.b != 8 || large.c != 1007) return 2;
    if ([node twice] != 2000) return 3;
    node.next = other;
    other.previous = node;
    @autoreleasepool { // the getters autorelease what they return
        if (other.previous != node || node.next != other) return 4;
    }
    Node *nothing = nil;
    if ([nothing twice] != 0 || [nothing sum:1 b:1 c:1 d:1 e:1 f:1 g:1 h:1] != 0) return 5;
    try {
        [node fail];
        return 6;
    } catch (const std::runtime_error &) {
    }
    node = nil;
    if (other.previous) return 7;
    NSString *tiny = @"tiny", *text = [NSString stringWithUTF8String:"a longer text"];
    if (![tiny isEqualToString:[NSString stringWithUTF8String:"tiny"]] || text.length != 13) return 8;
    if (![text isKindOfClass:[NSString class]] || [text respondsToSelector:@selector(twice)]) return 9;
    return 0;
}

} // namespace

int main() {
    int result = 0;
    @autoreleasepool {
        result = check();
    }
    return result ? result : objc_live_objects() ? 20 : 0;
}
