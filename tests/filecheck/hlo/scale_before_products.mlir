// RUN: %opt -p scale-before-products %s --split-input-file | filecheck %s

// The queries of an attention are scaled, not the scores; a mask may stand between.

func.func @attention(%q: tensor<2x8x16xbf16>, %k: tensor<2x256x16xbf16>, %mask: tensor<2x8x256xi1>) -> tensor<2x8x256xbf16> {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"bfloat16", [], "gP8=">}> : () -> tensor<bf16>
  %lows = "stablehlo.broadcast_in_dim"(%low) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<2x8x256xbf16>
  %eighth = "stablehlo.constant"() <{value = #hlo.literal<"bfloat16", [], "AD4=">}> : () -> tensor<bf16>
  %c = "stablehlo.broadcast_in_dim"(%eighth) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<2x8x256xbf16>
  %s = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2x8x16xbf16>, tensor<2x256x16xbf16>) -> tensor<2x8x256xbf16>
  %t = "stablehlo.multiply"(%s, %c) : (tensor<2x8x256xbf16>, tensor<2x8x256xbf16>) -> tensor<2x8x256xbf16>
  %x = "stablehlo.select"(%mask, %t, %lows) : (tensor<2x8x256xi1>, tensor<2x8x256xbf16>, tensor<2x8x256xbf16>) -> tensor<2x8x256xbf16>
  %m = "stablehlo.reduce"(%x, %low) <{dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %r = "stablehlo.maximum"(%a, %b) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
    "stablehlo.return"(%r) : (tensor<bf16>) -> ()
  }) : (tensor<2x8x256xbf16>, tensor<bf16>) -> tensor<2x8xbf16>
  %ms = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x8xbf16>) -> tensor<2x8x256xbf16>
  %d = "stablehlo.subtract"(%x, %ms) : (tensor<2x8x256xbf16>, tensor<2x8x256xbf16>) -> tensor<2x8x256xbf16>
  %e = "stablehlo.exponential"(%d) : (tensor<2x8x256xbf16>) -> tensor<2x8x256xbf16>
  func.return %e : tensor<2x8x256xbf16>
}

// CHECK-LABEL: func.func @attention
// CHECK:         [[Q:%[0-9a-z]+]] = "stablehlo.multiply"(%q, {{.*}}tensor<2x8x16xbf16>
// CHECK:         [[S:%[0-9a-z]+]] = "stablehlo.dot_general"([[Q]], %k)
// CHECK-NEXT:    "stablehlo.select"(%mask, [[S]],

// -----

// By a third the queries would be rounded; scores that are no softmax's keep their order.

func.func @third(%q: tensor<8x16xf32>, %k: tensor<256x16xf32>) -> tensor<8x256xf32> {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}> : () -> tensor<f32>
  %third = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "q6qqPg==">}> : () -> tensor<f32>
  %c = "stablehlo.broadcast_in_dim"(%third) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<8x256xf32>
  %s = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<8x16xf32>, tensor<256x16xf32>) -> tensor<8x256xf32>
  %x = "stablehlo.multiply"(%s, %c) : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<8x256xf32>
  %m = "stablehlo.reduce"(%x, %low) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%r) : (tensor<f32>) -> ()
  }) : (tensor<8x256xf32>, tensor<f32>) -> tensor<8xf32>
  %ms = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0>}> : (tensor<8xf32>) -> tensor<8x256xf32>
  %d = "stablehlo.subtract"(%x, %ms) : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<8x256xf32>
  func.return %d : tensor<8x256xf32>
}

func.func @product(%q: tensor<8x16xf32>, %k: tensor<256x16xf32>) -> tensor<8x256xf32> {
  %half = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAPw==">}> : () -> tensor<f32>
  %c = "stablehlo.broadcast_in_dim"(%half) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<8x256xf32>
  %s = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<8x16xf32>, tensor<256x16xf32>) -> tensor<8x256xf32>
  %x = "stablehlo.multiply"(%s, %c) : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<8x256xf32>
  func.return %x : tensor<8x256xf32>
}

// CHECK-LABEL: func.func @third
// CHECK:         [[S:%[0-9a-z]+]] = "stablehlo.dot_general"(%q, %k)
// CHECK-NEXT:    "stablehlo.multiply"([[S]],
// CHECK-LABEL: func.func @product
// CHECK:         [[S:%[0-9a-z]+]] = "stablehlo.dot_general"(%q, %k)
// CHECK-NEXT:    "stablehlo.multiply"([[S]],
