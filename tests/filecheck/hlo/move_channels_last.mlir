// RUN: %opt -p move-channels-last %s --split-input-file | filecheck %s

// A convolution per channel alone: its image is brought into order, and its result back.

func.func @main(%0: tensor<2x16x12x12xf32>, %1: tensor<16x1x3x3xf32>) -> tensor<2x16x10x10xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>">, feature_group_count = 16 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x16x12x12xf32>, tensor<16x1x3x3xf32>) -> tensor<2x16x10x10xf32>
  func.return %2 : tensor<2x16x10x10xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[X:.*]] = "stablehlo.transpose"(%0) <{permutation = array<i64: 0, 2, 3, 1>}> {{.*}}-> tensor<2x12x12x16xf32>
// CHECK-NEXT:   %[[Y:.*]] = "stablehlo.convolution"(%[[X]], %1) {{.*}}[b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f]{{.*}}-> tensor<2x10x10x16xf32>
// CHECK-NEXT:   %[[Z:.*]] = "stablehlo.transpose"(%[[Y]]) <{permutation = array<i64: 0, 3, 1, 2>}> {{.*}}-> tensor<2x16x10x10xf32>
// CHECK-NEXT:   func.return %[[Z]]

// -----

// Any other convolution alone stays as it is: two transposes would move more than it saves.

func.func @main(%0: tensor<2x16x12x12xf32>, %1: tensor<16x16x3x3xf32>) -> tensor<2x16x10x10xf32> {
  %2 = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x16x12x12xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x10x10xf32>
  func.return %2 : tensor<2x16x10x10xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   "stablehlo.convolution"(%0, %1) {{.*}}[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]

// -----

// What lies between two convolutions has another order: constants, broadcasts, windows, paddings and sums follow.

func.func @main(%x: tensor<2x3x12x12xf32>, %w: tensor<16x3x3x3xf32>, %b: tensor<16xf32>, %v: tensor<16x16x1x1xf32>) -> (tensor<2x16xf32>, tensor<2x16x6xf32>) {
  %i = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %c = "stablehlo.convolution"(%x, %w) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>">, feature_group_count = 1 : i64, padding = #hlo.elements<#hlo.literal<"int64", [], "AQAAAAAAAAA=">, tensor<2x2xi64>>, window_strides = array<i64: 1, 1>}> : (tensor<2x3x12x12xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x12x12xf32>
  %s = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 1>}> : (tensor<16xf32>) -> tensor<2x16x12x12xf32>
  %a = "stablehlo.add"(%c, %s) : (tensor<2x16x12x12xf32>, tensor<2x16x12x12xf32>) -> tensor<2x16x12x12xf32>
  %p = "stablehlo.pad"(%a, %i) <{edge_padding_low = array<i64: 0, 0, 0, 0>, edge_padding_high = array<i64: 0, 0, 1, 2>, interior_padding = array<i64: 0, 0, 0, 0>}> : (tensor<2x16x12x12xf32>, tensor<f32>) -> tensor<2x16x13x14xf32>
  %m = "stablehlo.reduce_window"(%p, %i) <{window_dimensions = array<i64: 1, 1, 3, 4>, window_strides = array<i64: 1, 1, 2, 2>}> ({
  ^bb0(%d: tensor<f32>, %e: tensor<f32>):
    %f = "stablehlo.maximum"(%d, %e) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%f) : (tensor<f32>) -> ()
  }) : (tensor<2x16x13x14xf32>, tensor<f32>) -> tensor<2x16x6x6xf32>
  %o = "stablehlo.convolution"(%m, %v) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x16x6x6xf32>, tensor<16x16x1x1xf32>) -> tensor<2x16x6x6xf32>
  %g = "stablehlo.reduce"(%o, %i) <{dimensions = array<i64: 2, 3>}> ({
  ^bb0(%d: tensor<f32>, %e: tensor<f32>):
    %f = "stablehlo.add"(%d, %e) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%f) : (tensor<f32>) -> ()
  }) : (tensor<2x16x6x6xf32>, tensor<f32>) -> tensor<2x16xf32>
  %h = "stablehlo.reduce"(%o, %i) <{dimensions = array<i64: 3>}> ({
  ^bb0(%d: tensor<f32>, %e: tensor<f32>):
    %f = "stablehlo.add"(%d, %e) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%f) : (tensor<f32>) -> ()
  }) : (tensor<2x16x6x6xf32>, tensor<f32>) -> tensor<2x16x6xf32>
  func.return %g, %h : tensor<2x16xf32>, tensor<2x16x6xf32>
}

// CHECK:      func.func @main(%[[IN:.*]]: tensor<2x3x12x12xf32>,
// CHECK:        "stablehlo.convolution"(%[[IN]], {{.*}}[b, f, 0, 1]x[o, i, 0, 1]->[b, 0, 1, f]{{.*}}-> tensor<2x12x12x16xf32>
// CHECK-NEXT:   "stablehlo.broadcast_in_dim"({{.*}}) <{broadcast_dimensions = array<i64: 3>}>
// CHECK-NEXT:   "stablehlo.add"({{.*}}-> tensor<2x12x12x16xf32>
// CHECK-NEXT:   "stablehlo.pad"({{.*}}edge_padding_high = array<i64: 0, 1, 2, 0>
// CHECK-NEXT:   "stablehlo.reduce_window"({{.*}}window_dimensions = array<i64: 1, 3, 4, 1>, window_strides = array<i64: 1, 2, 2, 1>
// CHECK:        "stablehlo.convolution"({{.*}}[b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f]{{.*}}-> tensor<2x6x6x16xf32>
// CHECK-NEXT:   %[[G:.*]] = "stablehlo.reduce"({{.*}}dimensions = array<i64: 1, 2>
// CHECK:        %[[H:.*]] = "stablehlo.reduce"({{.*}}dimensions = array<i64: 2>
// CHECK:        %[[T:.*]] = "stablehlo.transpose"(%[[H]]) <{permutation = array<i64: 0, 2, 1>}>
// CHECK-NEXT:   func.return %[[G]], %[[T]]

// -----

// An op that needs the order there was reads a transpose; a transpose to the new order goes.

func.func @main(%x: tensor<2x10x10x16xf32>, %w: tensor<16x16x3x3xf32>, %v: tensor<16x16x3x3xf32>) -> (tensor<2x6x6x16xf32>, tensor<2x1024xf32>) {
  %t = "stablehlo.transpose"(%x) <{permutation = array<i64: 0, 3, 1, 2>}> : (tensor<2x10x10x16xf32>) -> tensor<2x16x10x10xf32>
  %c = "stablehlo.convolution"(%t, %w) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x16x10x10xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x8x8xf32>
  %n = "stablehlo.negate"(%c) : (tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  %r = "stablehlo.reverse"(%n) <{dimensions = array<i64: 2>}> : (tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  %d = "stablehlo.convolution"(%r, %v) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x6x6xf32>
  %e = "stablehlo.convolution"(%n, %v) <{batch_group_count = 1 : i64, dimension_numbers = #hlo.struct<"#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>">, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>}> : (tensor<2x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x6x6xf32>
  %f = "stablehlo.add"(%d, %e) : (tensor<2x16x6x6xf32>, tensor<2x16x6x6xf32>) -> tensor<2x16x6x6xf32>
  %g = "stablehlo.transpose"(%f) <{permutation = array<i64: 0, 2, 3, 1>}> : (tensor<2x16x6x6xf32>) -> tensor<2x6x6x16xf32>
  %h = "stablehlo.reshape"(%n) : (tensor<2x16x8x8xf32>) -> tensor<2x1024xf32>
  func.return %g, %h : tensor<2x6x6x16xf32>, tensor<2x1024xf32>
}

// CHECK:      func.func @main(%[[IN:.*]]: tensor<2x10x10x16xf32>,
// CHECK-NEXT:   %[[C:.*]] = "stablehlo.convolution"(%[[IN]], {{.*}}[b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f]
// CHECK-NEXT:   %[[N:.*]] = "stablehlo.negate"(%[[C]])
// CHECK-NEXT:   %[[BACK:.*]] = "stablehlo.transpose"(%[[N]]) <{permutation = array<i64: 0, 3, 1, 2>}>
// CHECK-NEXT:   "stablehlo.reverse"(%[[N]]) <{dimensions = array<i64: 1>}>
// CHECK:        %[[F:.*]] = "stablehlo.add"({{.*}}-> tensor<2x6x6x16xf32>
// CHECK-NEXT:   %[[H:.*]] = "stablehlo.reshape"(%[[BACK]])
// CHECK-NEXT:   func.return %[[F]], %[[H]]
