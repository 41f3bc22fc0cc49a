// RUN: %opt -p expand-linear-algebra %s --split-input-file | filecheck %s

// Each turn of the loop makes one column of the factor; the last element decides whether there is one.

func.func @main(%0: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %1 = "stablehlo.cholesky"(%0) <{lower = true}> : (tensor<3x3xf32>) -> tensor<3x3xf32>
  func.return %1 : tensor<3x3xf32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<i1>
// CHECK:         "stablehlo.return"{{.*}}-> ()
// CHECK:         "stablehlo.dot_general"{{.*}}-> tensor<3x1xf32>
// CHECK:         "stablehlo.sqrt"{{.*}}-> tensor<1x1xf32>
// CHECK:         "stablehlo.divide"{{.*}}-> tensor<3x1xf32>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<3x1xi1>
// CHECK:         "stablehlo.dynamic_update_slice"{{.*}}-> tensor<3x3xf32>
// CHECK:         "stablehlo.return"{{.*}}-> ()
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<3x3xi1>
// CHECK:           func.return %39

// -----

// A solve makes one row after the other.

func.func @main(%0: tensor<3x3xf32>, %1: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %2 = "stablehlo.triangular_solve"(%0, %1) <{left_side = true, lower = true, transpose_a = "NO_TRANSPOSE", unit_diagonal = false}> : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  func.return %2 : tensor<3x2xf32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.dot_general"{{.*}}-> tensor<1x2xf32>
// CHECK:         "stablehlo.subtract"{{.*}}-> tensor<1x2xf32>
// CHECK:         "stablehlo.divide"{{.*}}-> tensor<1x2xf32>
// CHECK:         "stablehlo.dynamic_update_slice"{{.*}}-> tensor<3x2xf32>
// CHECK:           func.return %10
