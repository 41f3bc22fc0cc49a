// RUN: %opt -p expand-arg-extreme %s --split-input-file | filecheck %s

// Of two NaNs that with the smaller index is taken, whichever side it is on.

func.func @main(%0: tensor<3x8xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACA/w==">}> : () -> tensor<f32>
  %2 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %3 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<3x8xi32>
  %4, %5 = "stablehlo.reduce"(%0, %3, %1, %2) <{dimensions = array<i64: 1>}> ({
  ^bb0(%6: tensor<f32>, %7: tensor<i32>, %8: tensor<f32>, %9: tensor<i32>):
    %10 = "stablehlo.compare"(%6, %8) <{compare_type = "FLOAT", comparison_direction = "GT"}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %11 = "stablehlo.compare"(%6, %6) <{compare_type = "FLOAT", comparison_direction = "NE"}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %12 = "stablehlo.or"(%10, %11) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %13 = "stablehlo.compare"(%6, %8) <{compare_type = "FLOAT", comparison_direction = "EQ"}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %14 = "stablehlo.compare"(%7, %9) <{compare_type = "SIGNED", comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %15 = "stablehlo.and"(%13, %14) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %16 = "stablehlo.or"(%12, %15) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %17 = "stablehlo.select"(%12, %6, %8) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %18 = "stablehlo.select"(%16, %7, %9) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%17, %18) : (tensor<f32>, tensor<i32>) -> ()
  }) : (tensor<3x8xf32>, tensor<3x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
  func.return %4, %5 : tensor<3xf32>, tensor<3xi32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.not"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.select"{{.*}}-> tensor<f32>
// CHECK:         "stablehlo.select"{{.*}}-> tensor<i32>
// CHECK:           func.return %4, %5
