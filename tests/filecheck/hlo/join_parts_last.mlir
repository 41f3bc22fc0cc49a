// RUN: %opt -p join-parts-last %s --split-input-file | filecheck %s

// What narrows, what leaves the dimension of the concatenation and all behind it, and a transpose are done to its parts.

func.func @main(%0: tensor<6x8x5xf32>, %1: tensor<6x8x7xf32>) -> tensor<2x8x3x12xbf16> {
  %2 = "stablehlo.concatenate"(%0, %1) <{dimension = 2 : i64}> : (tensor<6x8x5xf32>, tensor<6x8x7xf32>) -> tensor<6x8x12xf32>
  %3 = "stablehlo.convert"(%2) : (tensor<6x8x12xf32>) -> tensor<6x8x12xbf16>
  %4 = "stablehlo.reshape"(%3) : (tensor<6x8x12xbf16>) -> tensor<2x3x8x12xbf16>
  %5 = "stablehlo.transpose"(%4) <{permutation = array<i64: 0, 2, 1, 3>}> : (tensor<2x3x8x12xbf16>) -> tensor<2x8x3x12xbf16>
  func.return %5 : tensor<2x8x3x12xbf16>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[A:.*]] = "stablehlo.convert"(%0) : (tensor<6x8x5xf32>) -> tensor<6x8x5xbf16>
// CHECK-NEXT:   %[[B:.*]] = "stablehlo.convert"(%1) : (tensor<6x8x7xf32>) -> tensor<6x8x7xbf16>
// CHECK-NEXT:   %[[C:.*]] = "stablehlo.reshape"(%[[A]]) : (tensor<6x8x5xbf16>) -> tensor<2x3x8x5xbf16>
// CHECK-NEXT:   %[[D:.*]] = "stablehlo.reshape"(%[[B]]) : (tensor<6x8x7xbf16>) -> tensor<2x3x8x7xbf16>
// CHECK-NEXT:   %[[E:.*]] = "stablehlo.transpose"(%[[C]]) <{permutation = array<i64: 0, 2, 1, 3>}>
// CHECK-NEXT:   %[[F:.*]] = "stablehlo.transpose"(%[[D]]) <{permutation = array<i64: 0, 2, 1, 3>}>
// CHECK-NEXT:   %[[G:.*]] = "stablehlo.concatenate"(%[[E]], %[[F]]) <{dimension = 3 : i64}>
// CHECK-NEXT:   func.return %[[G]]

// -----

// A transpose moves the dimension; one that is read twice stays, as what widens does, and a reshape that cuts the dimension.

func.func @main(%0: tensor<6x5xf32>, %1: tensor<6x7xf32>) -> (tensor<12x6xf32>, tensor<12x6xf64>, tensor<72xf32>, tensor<12x6xf32>, tensor<6x12xf32>) {
  %2 = "stablehlo.concatenate"(%0, %1) <{dimension = 1 : i64}> : (tensor<6x5xf32>, tensor<6x7xf32>) -> tensor<6x12xf32>
  %3 = "stablehlo.transpose"(%2) <{permutation = array<i64: 1, 0>}> : (tensor<6x12xf32>) -> tensor<12x6xf32>
  %4 = "stablehlo.concatenate"(%3, %3) <{dimension = 0 : i64}> : (tensor<12x6xf32>, tensor<12x6xf32>) -> tensor<24x6xf32>
  %5 = "stablehlo.slice"(%4) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 12, 6>, strides = array<i64: 1, 1>}> : (tensor<24x6xf32>) -> tensor<12x6xf32>
  %6 = "stablehlo.concatenate"(%0, %1) <{dimension = 1 : i64}> : (tensor<6x5xf32>, tensor<6x7xf32>) -> tensor<6x12xf32>
  %7 = "stablehlo.convert"(%5) : (tensor<12x6xf32>) -> tensor<12x6xf64>
  %8 = "stablehlo.reshape"(%6) : (tensor<6x12xf32>) -> tensor<72xf32>
  %9 = "stablehlo.concatenate"(%0, %1) <{dimension = 1 : i64}> : (tensor<6x5xf32>, tensor<6x7xf32>) -> tensor<6x12xf32>
  %10 = "stablehlo.transpose"(%9) <{permutation = array<i64: 1, 0>}> : (tensor<6x12xf32>) -> tensor<12x6xf32>
  func.return %3, %7, %8, %10, %9 : tensor<12x6xf32>, tensor<12x6xf64>, tensor<72xf32>, tensor<12x6xf32>, tensor<6x12xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[A:.*]] = "stablehlo.transpose"(%0)
// CHECK-NEXT:   %[[B:.*]] = "stablehlo.transpose"(%1)
// CHECK-NEXT:   %[[T:.*]] = "stablehlo.concatenate"(%[[A]], %[[B]]) <{dimension = 0 : i64}>
// CHECK-NEXT:   %[[TWO:.*]] = "stablehlo.concatenate"(%[[T]], %[[T]])
// CHECK-NEXT:   %[[S:.*]] = "stablehlo.slice"(%[[TWO]])
// CHECK-NEXT:   %[[C:.*]] = "stablehlo.concatenate"(%0, %1)
// CHECK-NEXT:   %[[W:.*]] = "stablehlo.convert"(%[[S]])
// CHECK-NEXT:   %[[R:.*]] = "stablehlo.reshape"(%[[C]])
// CHECK-NEXT:   %[[D:.*]] = "stablehlo.concatenate"(%0, %1)
// CHECK-NEXT:   %[[U:.*]] = "stablehlo.transpose"(%[[D]])
// CHECK-NEXT:   func.return %[[T]], %[[W]], %[[R]], %[[U]], %[[D]]
