// RUN: %opt -p hoist-invariants %s --split-input-file | filecheck %s

// The sum is before the loop; what depends on the loop's state stays, and so does what is cheap.

func.func @main(%0: tensor<4xf32>) -> tensor<f32> {
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %2 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "BQAAAA==">}> : () -> tensor<i32>
  %3 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %4 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %5, %6 = "stablehlo.while"(%1, %4) ({
  ^bb0(%7: tensor<i32>, %8: tensor<f32>):
    %9 = "stablehlo.compare"(%7, %2) <{comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%9) : (tensor<i1>) -> ()
  }, {
  ^bb0(%10: tensor<i32>, %11: tensor<f32>):
    %12 = "stablehlo.reduce"(%0, %4) <{dimensions = array<i64: 0>}> ({
    ^bb0(%13: tensor<f32>, %14: tensor<f32>):
      %15 = "stablehlo.add"(%13, %14) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%15) : (tensor<f32>) -> ()
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %16 = "stablehlo.multiply"(%12, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %17 = "stablehlo.add"(%10, %3) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%17, %16) : (tensor<i32>, tensor<f32>) -> ()
  }) : (tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>)
  func.return %6 : tensor<f32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.add"{{.*}}-> tensor<f32>
// CHECK:         "stablehlo.while"
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.multiply"{{.*}}-> tensor<f32>
// CHECK:         "stablehlo.add"{{.*}}-> tensor<i32>
// CHECK:           func.return %10
