// RUN: %opt -p plan-fusions %s --split-input-file | filecheck %s

// Every op is in a fusion: an elementwise op joins its user, and a dot has its epilogue.

func.func @main(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = "stablehlo.exponential"(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "stablehlo.negate"(%0) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "stablehlo.dot_general"(%1, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = "stablehlo.add"(%2, %b) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  func.return %3 : tensor<64x64xf32>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<64x64xf32>, %[[B:.*]]: tensor<64x64xf32>)
// CHECK:        "hlo.fusion"(
// CHECK:          %[[E:.*]] = "stablehlo.exponential"
// CHECK-NEXT:     "stablehlo.negate"(%[[E]])
// CHECK:          %[[D:.*]] = "stablehlo.dot_general"
// CHECK-NEXT:     "stablehlo.add"(%[[D]]
// CHECK-NEXT:     "stablehlo.return"
// CHECK:        func.return

// -----

// A fusion of the source stays as it is; what is beside it gets its own.

func.func @main(%a: tensor<40xf32>) -> tensor<40xf32> {
  %0 = "hlo.fusion"(%a) <{kind = "kLoop", fusion_name = "mine"}> ({
  ^bb0(%x: tensor<40xf32>):
    %y = "stablehlo.exponential"(%x) : (tensor<40xf32>) -> tensor<40xf32>
    "stablehlo.return"(%y) : (tensor<40xf32>) -> ()
  }) : (tensor<40xf32>) -> tensor<40xf32>
  %1 = "stablehlo.sine"(%0) : (tensor<40xf32>) -> tensor<40xf32>
  func.return %1 : tensor<40xf32>
}

// CHECK:      %[[M:.*]] = "hlo.fusion"(%{{.*}}) <{kind = "kLoop", fusion_name = "mine"}> ({
// CHECK:        "stablehlo.exponential"
// CHECK:      %[[S:.*]] = "hlo.fusion"(%[[M]]) <{kind = "kLoop", fusion_name = "sine_fusion"}> ({
// CHECK:        "stablehlo.sine"
// CHECK:      func.return %[[S]]

// -----

// What is read at two places is computed once: it is the root of a fusion.

func.func @main(%a: tensor<40x60xf32>) -> tensor<40x60xf32> {
  %0 = "stablehlo.exponential"(%a) : (tensor<40x60xf32>) -> tensor<40x60xf32>
  %1 = "stablehlo.reverse"(%0) <{dimensions = array<i64: 0>}> : (tensor<40x60xf32>) -> tensor<40x60xf32>
  %2 = "stablehlo.add"(%0, %1) : (tensor<40x60xf32>, tensor<40x60xf32>) -> tensor<40x60xf32>
  func.return %2 : tensor<40x60xf32>
}

// CHECK:      %[[E:.*]] = "hlo.fusion"(%{{.*}}) <{kind = "kLoop", fusion_name = "exponential_fusion"}>
// CHECK:        "stablehlo.exponential"
// CHECK:      "hlo.fusion"(%[[E]]) <{kind = "kLoop", fusion_name = "add_fusion"}>
// CHECK:        "stablehlo.reverse"
// CHECK:        "stablehlo.add"
// CHECK-NOT:  "stablehlo.exponential"

// -----

// A dot is stored as the heads that its reader makes of it.

func.func @main(%x: tensor<40x96xbf16>, %w: tensor<96x128xbf16>) -> tensor<2x40x64xbf16> {
  %0 = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<40x96xbf16>, tensor<96x128xbf16>) -> tensor<40x128xbf16>
  %1 = "stablehlo.reshape"(%0) : (tensor<40x128xbf16>) -> tensor<40x2x64xbf16>
  %2 = "stablehlo.transpose"(%1) <{permutation = array<i64: 1, 0, 2>}> : (tensor<40x2x64xbf16>) -> tensor<2x40x64xbf16>
  func.return %2 : tensor<2x40x64xbf16>
}

// CHECK:      "hlo.fusion"(%{{.*}}, %{{.*}}) <{kind = "kLoop", fusion_name = "transpose_fusion"}>
// CHECK:        "stablehlo.dot_general"
// CHECK-NEXT:   "stablehlo.reshape"
// CHECK-NEXT:   "stablehlo.transpose"
// CHECK:      func.return

// -----

// It is not where the reader has rows next to each other, or turns them around.

func.func @main(%x: tensor<40x96xf32>, %y: tensor<40x96xf32>, %w: tensor<96x128xf32>) -> (tensor<128x40xf32>, tensor<40x128xf32>) {
  %0 = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<40x96xf32>, tensor<96x128xf32>) -> tensor<40x128xf32>
  %1 = "stablehlo.transpose"(%0) <{permutation = array<i64: 1, 0>}> : (tensor<40x128xf32>) -> tensor<128x40xf32>
  %2 = "stablehlo.dot_general"(%y, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<40x96xf32>, tensor<96x128xf32>) -> tensor<40x128xf32>
  %3 = "stablehlo.reverse"(%2) <{dimensions = array<i64: 0>}> : (tensor<40x128xf32>) -> tensor<40x128xf32>
  func.return %1, %3 : tensor<128x40xf32>, tensor<40x128xf32>
}

// CHECK:      "hlo.fusion"(%{{.*}}, %{{.*}}) <{kind = "kLoop", fusion_name = "dot_general_fusion"}>
// CHECK:      "hlo.fusion"(%{{.*}}) <{kind = "kLoop", fusion_name = "transpose_fusion"}>
// CHECK:      "hlo.fusion"(%{{.*}}, %{{.*}}) <{kind = "kLoop", fusion_name = "dot_general_fusion.1"}>
// CHECK:      "hlo.fusion"(%{{.*}}) <{kind = "kLoop", fusion_name = "reverse_fusion"}>

// -----

// What a convolution became takes an epilogue as a dot does, also with arithmetic on what a channel has once; what is no contraction
// stays as it is.

func.func @main(%a: tensor<512x64xf32>, %b: tensor<64x64xf32>, %s: tensor<64xf32>) -> tensor<512x64xf32> {
  %0 = "hlo.fusion"(%a, %b) <{kind = "kLoop", fusion_name = "convolution_fusion", is_expansion}> ({
  ^bb0(%x: tensor<512x64xf32>, %y: tensor<64x64xf32>):
    %p = "stablehlo.transpose"(%y) <{permutation = array<i64: 1, 0>}> : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %d = "stablehlo.dot_general"(%x, %p) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>">}> : (tensor<512x64xf32>, tensor<64x64xf32>) -> tensor<512x64xf32>
    "stablehlo.return"(%d) : (tensor<512x64xf32>) -> ()
  }) : (tensor<512x64xf32>, tensor<64x64xf32>) -> tensor<512x64xf32>
  %1 = "hlo.fusion"(%s) <{kind = "kLoop", fusion_name = "square_fusion", is_expansion}> ({
  ^bb0(%x: tensor<64xf32>):
    %q = "stablehlo.multiply"(%x, %x) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    "stablehlo.return"(%q) : (tensor<64xf32>) -> ()
  }) : (tensor<64xf32>) -> tensor<64xf32>
  %2 = "stablehlo.rsqrt"(%1) : (tensor<64xf32>) -> tensor<64xf32>
  %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64: 1>}> : (tensor<64xf32>) -> tensor<512x64xf32>
  %4 = "stablehlo.multiply"(%0, %3) : (tensor<512x64xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
  func.return %4 : tensor<512x64xf32>
}

// CHECK:      %[[Q:.*]] = "hlo.fusion"(%{{.*}}) <{kind = "kLoop", fusion_name = "square_fusion", is_expansion}>
// CHECK:      "hlo.fusion"(%{{.*}}) <{kind = "kLoop", fusion_name = "multiply_fusion"}> ({
// CHECK:        "stablehlo.transpose"
// CHECK:        %[[D:.*]] = "stablehlo.dot_general"
// CHECK:        %[[R:.*]] = "stablehlo.rsqrt"
// CHECK:        "stablehlo.multiply"(%[[D]],
// CHECK-NOT:  convolution_fusion
// CHECK:      func.return

// -----

// Products of the same rows are one fusion with as many results; one that needs another's is not.

func.func @main(%x: tensor<64x64xbf16>, %u: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>) {
  %0 = "stablehlo.dot_general"(%x, %u) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %1 = "stablehlo.tanh"(%0) : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %2 = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %3 = "stablehlo.negate"(%2) : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %4 = "stablehlo.dot_general"(%x, %3) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %5 = "stablehlo.abs"(%4) : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  func.return %1, %3, %5 : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>
}

// CHECK:      "hlo.fusion"(
// CHECK:        "stablehlo.dot_general"
// CHECK-NEXT:   "stablehlo.negate"
// CHECK-NEXT:   "stablehlo.return"
// CHECK:      "hlo.fusion"(
// CHECK:        "stablehlo.dot_general"
// CHECK:        "stablehlo.dot_general"
// CHECK:        "stablehlo.return"(%{{.*}}, %{{.*}})
// CHECK:      func.return

// -----

// A sum behind a product, read by a reduction of its rows and by others, is written behind the product: a result of the norm it would be
// written too, and so would the product.

func.func @main(%x: tensor<2048x256xf32>, %a: tensor<2048x64xf32>, %w: tensor<64x256xf32>) -> (tensor<2048x256xf32>, tensor<2048x256xf32>) {
  %d = "stablehlo.dot_general"(%a, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<2048x64xf32>, tensor<64x256xf32>) -> tensor<2048x256xf32>
  %s = "stablehlo.add"(%x, %d) : (tensor<2048x256xf32>, tensor<2048x256xf32>) -> tensor<2048x256xf32>
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %t = "stablehlo.reduce"(%s, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = "stablehlo.add"(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%r) : (tensor<f32>) -> ()
  }) : (tensor<2048x256xf32>, tensor<f32>) -> tensor<2048xf32>
  %b = "stablehlo.broadcast_in_dim"(%t) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2048xf32>) -> tensor<2048x256xf32>
  %n = "stablehlo.subtract"(%s, %b) : (tensor<2048x256xf32>, tensor<2048x256xf32>) -> tensor<2048x256xf32>
  func.return %s, %n : tensor<2048x256xf32>, tensor<2048x256xf32>
}

// CHECK:      func.func @main(
// CHECK:        %[[SUM:.+]] = "hlo.fusion"
// CHECK:          "stablehlo.dot_general"
// CHECK-NEXT:     %[[ADDED:.+]] = "stablehlo.add"
// CHECK-NEXT:     "stablehlo.return"(%[[ADDED]])
// CHECK:        "hlo.fusion"(%[[SUM]])
// CHECK:          "stablehlo.reduce"

// -----

// Readers of an input at the same index are one fusion, which reads it once; one that reads what another makes stays apart.

func.func @main(%x: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = "stablehlo.negate"(%x) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = "stablehlo.abs"(%x) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = "stablehlo.transpose"(%0) <{permutation = array<i64: 1, 0>}> : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %3 = "stablehlo.add"(%x, %2) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %0, %1, %3 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>
}

// CHECK:      func.func @main(
// CHECK:        %[[BOTH:.+]], %[[BOTH2:.+]] = "hlo.fusion"(%{{[^,]*}}) <{
// CHECK:          "stablehlo.negate"
// CHECK:          "stablehlo.abs"
// CHECK:        "hlo.fusion"(
// CHECK:          "stablehlo.transpose"
// CHECK:          "stablehlo.add"
// CHECK-NOT:    "hlo.fusion"(

// -----

// So are reductions of the same rows, if steps hold these whole.

func.func @main(%x: tensor<2048x256xf32>) -> (tensor<2048xf32>, tensor<2048xf32>) {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %0 = "stablehlo.reduce"(%x, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = "stablehlo.add"(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%r) : (tensor<f32>) -> ()
  }) : (tensor<2048x256xf32>, tensor<f32>) -> tensor<2048xf32>
  %1 = "stablehlo.reduce"(%x, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = "stablehlo.maximum"(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%r) : (tensor<f32>) -> ()
  }) : (tensor<2048x256xf32>, tensor<f32>) -> tensor<2048xf32>
  func.return %0, %1 : tensor<2048xf32>, tensor<2048xf32>
}

// CHECK:      func.func @main(
// CHECK:        "hlo.fusion"(
// CHECK:          "stablehlo.add"
// CHECK:          "stablehlo.maximum"
// CHECK-NOT:    "hlo.fusion"(

// -----

// A reshape of what several fusions read is in each of them, not copied in memory.

func.func @main(%x: tensor<512x512xf32>) -> (tensor<1024x256xf32>, tensor<256x1024xf32>) {
  %0 = "stablehlo.reshape"(%x) : (tensor<512x512xf32>) -> tensor<1024x256xf32>
  %1 = "stablehlo.negate"(%0) : (tensor<1024x256xf32>) -> tensor<1024x256xf32>
  %2 = "stablehlo.transpose"(%0) <{permutation = array<i64: 1, 0>}> : (tensor<1024x256xf32>) -> tensor<256x1024xf32>
  func.return %1, %2 : tensor<1024x256xf32>, tensor<256x1024xf32>
}

// CHECK:      func.func @main(%[[X:.+]]: tensor<512x512xf32>)
// CHECK:        "hlo.fusion"(%[[X]])
// CHECK:          "stablehlo.reshape"
// CHECK:          "stablehlo.negate"
// CHECK:        "hlo.fusion"(%[[X]])
// CHECK:          "stablehlo.reshape"
// CHECK:          "stablehlo.transpose"
// CHECK-NOT:    "hlo.fusion"(
