// RUN: %opt -p divide-behind-products %s --split-input-file | filecheck %s

// The weights of an attention are not divided: its result is, by the sums, whose rounding stays.

func.func @attention(%x: tensor<2x8x256xbf16>, %v: tensor<2x256x32xbf16>) -> tensor<2x8x32xbf16> {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"bfloat16", [], "gP8=">}> : () -> tensor<bf16>
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %m = "stablehlo.reduce"(%x, %low) <{dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %c = "stablehlo.maximum"(%a, %b) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
    "stablehlo.return"(%c) : (tensor<bf16>) -> ()
  }) : (tensor<2x8x256xbf16>, tensor<bf16>) -> tensor<2x8xbf16>
  %ms = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x8xbf16>) -> tensor<2x8x256xbf16>
  %d = "stablehlo.subtract"(%x, %ms) : (tensor<2x8x256xbf16>, tensor<2x8x256xbf16>) -> tensor<2x8x256xbf16>
  %e = "stablehlo.exponential"(%d) : (tensor<2x8x256xbf16>) -> tensor<2x8x256xbf16>
  %f = "stablehlo.convert"(%e) : (tensor<2x8x256xbf16>) -> tensor<2x8x256xf32>
  %s = "stablehlo.reduce"(%f, %zero) <{dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<2x8x256xf32>, tensor<f32>) -> tensor<2x8xf32>
  %t = "stablehlo.convert"(%s) : (tensor<2x8xf32>) -> tensor<2x8xbf16>
  %ts = "stablehlo.broadcast_in_dim"(%t) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x8xbf16>) -> tensor<2x8x256xbf16>
  %w = "stablehlo.divide"(%e, %ts) : (tensor<2x8x256xbf16>, tensor<2x8x256xbf16>) -> tensor<2x8x256xbf16>
  %r = "stablehlo.dot_general"(%w, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2x8x256xbf16>, tensor<2x256x32xbf16>) -> tensor<2x8x32xbf16>
  func.return %r : tensor<2x8x32xbf16>
}

// CHECK-LABEL: func.func @attention
// CHECK:         [[E:%[0-9a-z]+]] = "stablehlo.exponential"
// CHECK:         [[N:%[0-9a-z]+]] = "stablehlo.convert"([[S:%[0-9a-z]+]]){{.*}}-> tensor<2x8xbf16>
// CHECK:         [[T:%[0-9a-z]+]] = "stablehlo.convert"({{.*}}-> tensor<2x8xf32>
// CHECK:         [[B:%[0-9a-z]+]] = "stablehlo.broadcast_in_dim"([[T]]) <{broadcast_dimensions = array<i64: 0, 1>}> {{.*}}-> tensor<2x8x32xf32>
// CHECK:         [[P:%[0-9a-z]+]] = "stablehlo.dot_general"([[E]], {{.*}}-> tensor<2x8x32xf32>
// CHECK:         [[D:%[0-9a-z]+]] = "stablehlo.divide"([[P]], [[B]])
// CHECK:         [[R:%[0-9a-z]+]] = "stablehlo.convert"([[D]]){{.*}}-> tensor<2x8x32xbf16>
// CHECK-NEXT:    func.return [[R]]

// -----

// As many columns as weights: nothing is saved. Weights that something else reads stay too.

func.func @wide(%x: tensor<8x64xf32>, %v: tensor<64x64xf32>) -> tensor<8x64xf32> {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}> : () -> tensor<f32>
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %m = "stablehlo.reduce"(%x, %low) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  %ms = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0>}> : (tensor<8xf32>) -> tensor<8x64xf32>
  %d = "stablehlo.subtract"(%x, %ms) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %e = "stablehlo.exponential"(%d) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %s = "stablehlo.reduce"(%e, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  %ts = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0>}> : (tensor<8xf32>) -> tensor<8x64xf32>
  %w = "stablehlo.divide"(%e, %ts) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %r = "stablehlo.dot_general"(%w, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  func.return %r : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @wide
// CHECK:         [[W:%[0-9a-z]+]] = "stablehlo.divide"
// CHECK:         "stablehlo.dot_general"([[W]],

// -----

// In f32 the product drops what TF32 has not of its factors: the exponentials are rounded to that, for their sum too. At HIGHEST precision
// all bits count.

func.func @rounded(%x: tensor<2x8x256xf32>, %v: tensor<2x256x32xf32>) -> tensor<2x8x32xf32> {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}> : () -> tensor<f32>
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %m = "stablehlo.reduce"(%x, %low) <{dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<2x8x256xf32>, tensor<f32>) -> tensor<2x8xf32>
  %ms = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x8xf32>) -> tensor<2x8x256xf32>
  %d = "stablehlo.subtract"(%x, %ms) : (tensor<2x8x256xf32>, tensor<2x8x256xf32>) -> tensor<2x8x256xf32>
  %e = "stablehlo.exponential"(%d) : (tensor<2x8x256xf32>) -> tensor<2x8x256xf32>
  %s = "stablehlo.reduce"(%e, %zero) <{dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<2x8x256xf32>, tensor<f32>) -> tensor<2x8xf32>
  %ts = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x8xf32>) -> tensor<2x8x256xf32>
  %w = "stablehlo.divide"(%e, %ts) : (tensor<2x8x256xf32>, tensor<2x8x256xf32>) -> tensor<2x8x256xf32>
  %r = "stablehlo.dot_general"(%w, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2x8x256xf32>, tensor<2x256x32xf32>) -> tensor<2x8x32xf32>
  func.return %r : tensor<2x8x32xf32>
}

// CHECK-LABEL: func.func @rounded
// CHECK:         [[E:%[0-9a-z]+]] = "stablehlo.exponential"
// CHECK-NEXT:    [[R:%[0-9a-z]+]] = "stablehlo.reduce_precision"([[E]]) <{exponent_bits = 8 : i32, mantissa_bits = 10 : i32}>
// CHECK:         "stablehlo.reduce"([[R]],
// CHECK:         "stablehlo.dot_general"([[R]],

// -----

func.func @highest(%x: tensor<2x8x256xf32>, %v: tensor<2x256x32xf32>) -> tensor<2x8x32xf32> {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}> : () -> tensor<f32>
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %m = "stablehlo.reduce"(%x, %low) <{dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<2x8x256xf32>, tensor<f32>) -> tensor<2x8xf32>
  %ms = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x8xf32>) -> tensor<2x8x256xf32>
  %d = "stablehlo.subtract"(%x, %ms) : (tensor<2x8x256xf32>, tensor<2x8x256xf32>) -> tensor<2x8x256xf32>
  %e = "stablehlo.exponential"(%d) : (tensor<2x8x256xf32>) -> tensor<2x8x256xf32>
  %s = "stablehlo.reduce"(%e, %zero) <{dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<2x8x256xf32>, tensor<f32>) -> tensor<2x8xf32>
  %ts = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x8xf32>) -> tensor<2x8x256xf32>
  %w = "stablehlo.divide"(%e, %ts) : (tensor<2x8x256xf32>, tensor<2x8x256xf32>) -> tensor<2x8x256xf32>
  %r = "stablehlo.dot_general"(%w, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>">, precision_config = ["HIGHEST", "HIGHEST"]}> : (tensor<2x8x256xf32>, tensor<2x256x32xf32>) -> tensor<2x8x32xf32>
  func.return %r : tensor<2x8x32xf32>
}

// CHECK-LABEL: func.func @highest
// CHECK-NOT:     reduce_precision
// CHECK:         "stablehlo.dot_general"
