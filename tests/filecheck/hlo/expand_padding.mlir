// RUN: %opt -p expand-padding %s --split-input-file | filecheck %s

// A kernel of its own makes holes between many elements; what lies around them is padded as before.

func.func @main(%0: tensor<2000xf32>, %1: tensor<f32>) -> tensor<4001xf32> {
  %2 = "stablehlo.pad"(%0, %1) <{edge_padding_high = array<i64: 1>, edge_padding_low = array<i64: 1>, interior_padding = array<i64: 1>}> : (tensor<2000xf32>, tensor<f32>) -> tensor<4001xf32>
  func.return %2 : tensor<4001xf32>
}

// CHECK:      func.func @main(
// CHECK:         "hlo.fusion"
// CHECK:         "stablehlo.reshape"{{.*}}-> tensor<2000x1xf32>
// CHECK:         "stablehlo.pad"{{.*}}-> tensor<2000x2xf32>
// CHECK:         "stablehlo.reshape"{{.*}}-> tensor<4000xf32>
// CHECK:         "stablehlo.pad"{{.*}}-> tensor<4001xf32>
// CHECK:           func.return %8

// -----

// Few elements, or no holes: it stays.

func.func @main(%0: tensor<5xf32>, %1: tensor<f32>) -> (tensor<9xf32>, tensor<7xf32>) {
  %2 = "stablehlo.pad"(%0, %1) <{edge_padding_high = array<i64: 0>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 1>}> : (tensor<5xf32>, tensor<f32>) -> tensor<9xf32>
  %3 = "stablehlo.pad"(%0, %1) <{edge_padding_high = array<i64: 1>, edge_padding_low = array<i64: 1>, interior_padding = array<i64: 0>}> : (tensor<5xf32>, tensor<f32>) -> tensor<7xf32>
  func.return %2, %3 : tensor<9xf32>, tensor<7xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %2 = "stablehlo.pad"(%0, %1){{.*}}-> tensor<9xf32>
// CHECK-NEXT:   %3 = "stablehlo.pad"(%0, %1){{.*}}-> tensor<7xf32>
// CHECK-NEXT:   func.return %2, %3
