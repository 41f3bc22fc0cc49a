// RUN: %opt -p interleave-parts %s --split-input-file | filecheck %s

// Three parts of one number each are a transpose of three rows.

func.func @main(%0: tensor<40x50x1xf32>, %1: tensor<40x50x1xf32>, %2: tensor<40x50x1xf32>) -> tensor<40x50x3xf32> {
  %3 = "stablehlo.concatenate"(%0, %1, %2) <{dimension = 2 : i64}> : (tensor<40x50x1xf32>, tensor<40x50x1xf32>, tensor<40x50x1xf32>) -> tensor<40x50x3xf32>
  func.return %3 : tensor<40x50x3xf32>
}

// CHECK:      func.func @main(
// CHECK-COUNT-3: "stablehlo.reshape"({{.*}}-> tensor<1x2000x1xf32>
// CHECK-NEXT:   %[[C:.*]] = "stablehlo.concatenate"({{.*}}) <{dimension = 0 : i64}> {{.*}}-> tensor<3x2000x1xf32>
// CHECK-NEXT:   %[[T:.*]] = "stablehlo.transpose"(%[[C]]) <{permutation = array<i64: 1, 0, 2>}> {{.*}}-> tensor<2000x3x1xf32>
// CHECK-NEXT:   %[[R:.*]] = "stablehlo.reshape"(%[[T]])
// CHECK-NEXT:   func.return %[[R]]

// -----

// Runs of a line stay, as do parts that are not alike.

func.func @main(%0: tensor<40x16xf32>, %1: tensor<40x3xf32>) -> (tensor<40x32xf32>, tensor<40x19xf32>) {
  %2 = "stablehlo.concatenate"(%0, %0) <{dimension = 1 : i64}> : (tensor<40x16xf32>, tensor<40x16xf32>) -> tensor<40x32xf32>
  %3 = "stablehlo.concatenate"(%0, %1) <{dimension = 1 : i64}> : (tensor<40x16xf32>, tensor<40x3xf32>) -> tensor<40x19xf32>
  func.return %2, %3 : tensor<40x32xf32>, tensor<40x19xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   "stablehlo.concatenate"(%0, %0)
// CHECK-NEXT:   "stablehlo.concatenate"(%0, %1)

// -----

// Parts of single elements that are arithmetic on the same tensor stay: a step makes both.

func.func @main(%0: tensor<40x50x2xf32>) -> tensor<40x50x2xf32> {
  %1 = "stablehlo.slice"(%0) <{start_indices = array<i64: 0, 0, 0>, limit_indices = array<i64: 40, 50, 1>, strides = array<i64: 1, 1, 1>}> : (tensor<40x50x2xf32>) -> tensor<40x50x1xf32>
  %2 = "stablehlo.slice"(%0) <{start_indices = array<i64: 0, 0, 1>, limit_indices = array<i64: 40, 50, 2>, strides = array<i64: 1, 1, 1>}> : (tensor<40x50x2xf32>) -> tensor<40x50x1xf32>
  %3 = "stablehlo.negate"(%2) : (tensor<40x50x1xf32>) -> tensor<40x50x1xf32>
  %4 = "stablehlo.concatenate"(%3, %1) <{dimension = 2 : i64}> : (tensor<40x50x1xf32>, tensor<40x50x1xf32>) -> tensor<40x50x2xf32>
  func.return %4 : tensor<40x50x2xf32>
}

// CHECK:      func.func @main(
// CHECK-NOT:    stablehlo.transpose
// CHECK:        %[[C:.*]] = "stablehlo.concatenate"({{.*}}) <{dimension = 2 : i64}>
// CHECK-NEXT:   func.return %[[C]]
