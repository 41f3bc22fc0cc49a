// RUN: %opt -p expand-cumulative %s --split-input-file | filecheck %s

// Two rows of 32 and 8 more: totals of the rows, their scan behind the initial value, five steps in each row.

func.func @main(%0: tensor<2x40xf32>) -> tensor<2x40xf32> {
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %2 = "stablehlo.reduce_window"(%0, %1) <{padding = #hlo.elements<#hlo.literal<"int64", [2, 2], "AAAAAAAAAAAAAAAAAAAAACcAAAAAAAAAAAAAAAAAAAA=">, tensor<2x2xi64>>, window_dimensions = array<i64: 1, 40>}> ({
  ^bb0(%3: tensor<f32>, %4: tensor<f32>):
    %5 = "stablehlo.add"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%5) : (tensor<f32>) -> ()
  }) : (tensor<2x40xf32>, tensor<f32>) -> tensor<2x40xf32>
  func.return %2 : tensor<2x40xf32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.pad"{{.*}}-> tensor<2x64x1xf32>
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.add"{{.*}}-> tensor<f32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<2x1x1xf32>
// CHECK:         "hlo.fusion"
// CHECK:         "stablehlo.add"{{.*}}-> tensor<2x1x1xf32>
// CHECK:         "stablehlo.concatenate"{{.*}}-> tensor<2x2x1xf32>
// CHECK:         "hlo.fusion"
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x1x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x31x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x31x1xf32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<4x31x1xf32>
// CHECK:         "stablehlo.concatenate"{{.*}}-> tensor<4x32x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x2x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x30x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x30x1xf32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<4x30x1xf32>
// CHECK:         "stablehlo.concatenate"{{.*}}-> tensor<4x32x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x4x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x28x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x28x1xf32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<4x28x1xf32>
// CHECK:         "stablehlo.concatenate"{{.*}}-> tensor<4x32x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x8x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x24x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x24x1xf32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<4x24x1xf32>
// CHECK:         "stablehlo.concatenate"{{.*}}-> tensor<4x32x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x16x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x16x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<4x16x1xf32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<4x16x1xf32>
// CHECK:         "stablehlo.concatenate"{{.*}}-> tensor<4x32x1xf32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<4x32x1xf32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<2x40x1xf32>
// CHECK:           func.return %54

// -----

// Padded behind: from the last element to the first.

func.func @main(%0: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %2 = "stablehlo.reduce_window"(%0, %1) <{padding = #hlo.elements<#hlo.literal<"int64", [2, 2], "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADwAAAAAAAAA=">, tensor<2x2xi64>>, window_dimensions = array<i64: 1, 16>}> ({
  ^bb0(%3: tensor<f32>, %4: tensor<f32>):
    %5 = "stablehlo.add"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%5) : (tensor<f32>) -> ()
  }) : (tensor<2x16xf32>, tensor<f32>) -> tensor<2x16xf32>
  func.return %2 : tensor<2x16xf32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.reverse"{{.*}}-> tensor<2x16x1xf32>
// CHECK:         "hlo.fusion"
// CHECK:         "stablehlo.reverse"{{.*}}-> tensor<2x16x1xf32>
// CHECK:           func.return %31

// -----

// A window of part of the dimension, and a short one, stay.

func.func @main(%0: tensor<2x40xf32>) -> tensor<2x40xf32> {
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %2 = "stablehlo.reduce_window"(%0, %1) <{padding = #hlo.elements<#hlo.literal<"int64", [2, 2], "AAAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAAAAAAAAAAA=">, tensor<2x2xi64>>, window_dimensions = array<i64: 1, 3>}> ({
  ^bb0(%3: tensor<f32>, %4: tensor<f32>):
    %5 = "stablehlo.add"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%5) : (tensor<f32>) -> ()
  }) : (tensor<2x40xf32>, tensor<f32>) -> tensor<2x40xf32>
  func.return %2 : tensor<2x40xf32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.reduce_window"
// CHECK:           func.return %2
