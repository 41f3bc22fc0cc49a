// RUN: %opt -p expand-cumulative %s --split-input-file | filecheck %s

// Rows that are scanned at once, from the initial value.

func.func @main(%0: tensor<2x40xf32>) -> tensor<2x40xf32> {
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %2 = "stablehlo.reduce_window"(%0, %1) <{padding = #hlo.elements<#hlo.literal<"int64", [2, 2], "AAAAAAAAAAAAAAAAAAAAACcAAAAAAAAAAAAAAAAAAAA=">, tensor<2x2xi64>>, window_dimensions = array<i64: 1, 40>}> ({
  ^bb0(%3: tensor<f32>, %4: tensor<f32>):
    %5 = "stablehlo.add"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%5) : (tensor<f32>) -> ()
  }) : (tensor<2x40xf32>, tensor<f32>) -> tensor<2x40xf32>
  func.return %2 : tensor<2x40xf32>
}

// CHECK:      func.func @main(%[[X:.*]]: tensor<2x40xf32>)
// CHECK:         %[[I:.*]] = "stablehlo.constant"
// CHECK:         %[[R:.*]] = "hlo.fusion"(%[[X]], %[[I]])
// CHECK:           %[[Y:.*]] = "stablehlo.reshape"(%{{.*}}) : (tensor<2x40xf32>) -> tensor<2x40x1xf32>
// CHECK:           "hlo.scan"(%[[Y]], %{{.*}}) <{dimension = 1 : i64}> ({
// CHECK:             "stablehlo.add"
// CHECK:         "stablehlo.reshape"(%[[R]]) : (tensor<2x40x1xf32>) -> tensor<2x40xf32>

// -----

// A row of 10 pieces: their maxima, the scan of those behind the initial value, and each piece from where the last one ends.

func.func @pieces(%0: tensor<10240xf32>) -> tensor<10240xf32> {
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %2 = "stablehlo.reduce_window"(%0, %1) <{padding = #hlo.elements<#hlo.literal<"int64", [1, 2], "/ycAAAAAAAAAAAAAAAAAAA==">, tensor<1x2xi64>>, window_dimensions = array<i64: 10240>}> ({
  ^bb0(%3: tensor<f32>, %4: tensor<f32>):
    %5 = "stablehlo.maximum"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%5) : (tensor<f32>) -> ()
  }) : (tensor<10240xf32>, tensor<f32>) -> tensor<10240xf32>
  func.return %2 : tensor<10240xf32>
}

// CHECK:      func.func @pieces(
// CHECK:         "stablehlo.reduce"{{.*}} <{dimensions = array<i64: 1>}> ({
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<1x9x1xf32>
// CHECK:         "hlo.scan"({{.*}}) <{dimension = 1 : i64}> ({
// CHECK:         "stablehlo.concatenate"{{.*}}-> tensor<1x10x1xf32>
// CHECK:         "hlo.scan"({{.*}}) <{dimension = 1 : i64}> ({
// CHECK:         }) : (tensor<10x1024x1xf32>, tensor<10x1x1xf32>) -> tensor<10x1024x1xf32>

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
// CHECK:           func.return

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
