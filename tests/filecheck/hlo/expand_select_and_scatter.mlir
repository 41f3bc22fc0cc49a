// RUN: %opt -p expand-select-and-scatter %s --split-input-file | filecheck %s

// Which element each window selects; then what the windows that selected an element hold.

func.func @main(%0: tensor<5x5xf32>, %1: tensor<2x2xf32>) -> tensor<5x5xf32> {
  %2 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %3 = "stablehlo.select_and_scatter"(%0, %1, %2) <{padding = #hlo.elements<#hlo.literal<"int64", [], "AAAAAAAAAAA=">, tensor<2x2xi64>>, window_dimensions = array<i64: 3, 3>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%4: tensor<f32>, %5: tensor<f32>):
    %6 = "stablehlo.compare"(%4, %5) <{comparison_direction = "GE"}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    "stablehlo.return"(%6) : (tensor<i1>) -> ()
  }, {
  ^bb0(%7: tensor<f32>, %8: tensor<f32>):
    %9 = "stablehlo.add"(%7, %8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%9) : (tensor<f32>) -> ()
  }) : (tensor<5x5xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<5x5xf32>
  func.return %3 : tensor<5x5xf32>
}

// CHECK:      func.func @main(
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.read_at"{{.*}}-> tensor<2x2x3x3xf32>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<2x2x3x3xi32>
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.fusion"
// CHECK:         "hlo.read_at"{{.*}}-> tensor<5x5x3x3xf32>
// CHECK:         "hlo.read_at"{{.*}}-> tensor<5x5x3x3xi32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<f32>
// CHECK:           func.return %54
