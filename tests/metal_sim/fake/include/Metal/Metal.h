// The part of Metal that host code of this project uses, by hand: Apple's names, types and values, one header a topic
// as in Apple's framework. Add a declaration when the host needs it; tests/test_metal_sim_macos.py checks it.
#pragma once

#import <Foundation/Foundation.h>

#import <Metal/MTLTypes.h>

#import <Metal/MTLResource.h>

#import <Metal/MTLLibrary.h>

#import <Metal/MTLCommandBuffer.h>

#import <Metal/MTLDevice.h>
