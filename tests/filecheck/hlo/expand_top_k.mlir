// RUN: %opt -p expand-top-k %s --split-input-file | filecheck %s

// One of a row of 100: the largest of each block, the block where it is largest, the largest of that.

func.func @main(%0: tensor<2x100xf32>) -> (tensor<2x1xf32>, tensor<2x1xi32>) {
  %1, %2 = "chlo.top_k"(%0) <{k = 1 : i64}> : (tensor<2x100xf32>) -> (tensor<2x1xf32>, tensor<2x1xi32>)
  func.return %1, %2 : tensor<2x1xf32>, tensor<2x1xi32>
}

// CHECK:      func.func @main(
// CHECK:         "hlo.fusion"
// CHECK:         "stablehlo.shift_right_arithmetic"{{.*}}-> tensor<2x100xi32>
// CHECK:         "stablehlo.pad"{{.*}}-> tensor<2x104xi32>
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.maximum"{{.*}}-> tensor<i32>
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.minimum"{{.*}}-> tensor<i64>
// CHECK:         "stablehlo.gather"{{.*}}-> tensor<2x8xi32>
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.minimum"{{.*}}-> tensor<i64>
// CHECK:         "stablehlo.shift_right_arithmetic"{{.*}}-> tensor<2x1xi64>
// CHECK:         "stablehlo.shift_right_arithmetic"{{.*}}-> tensor<2x1xi32>
// CHECK:           func.return %67, %68

// -----

// A short row stays.

func.func @main(%0: tensor<2x50xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
  %1, %2 = "chlo.top_k"(%0) <{k = 3 : i64}> : (tensor<2x50xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)
  func.return %1, %2 : tensor<2x3xf32>, tensor<2x3xi32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %1, %2 = "chlo.top_k"(%0){{.*}}-> (tensor<2x3xf32>, tensor<2x3xi32>)
// CHECK-NEXT:   func.return %1, %2
