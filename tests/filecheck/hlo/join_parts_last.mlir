// RUN: %opt -p join-parts-last %s --split-input-file | filecheck %s

// What narrows, what leaves the dimension of the concatenation and all behind it, and a transpose are done to its parts.

func.func @main(%0: tensor<6x8x5xf32>, %1: tensor<6x8x7xf32>) -> tensor<2x8x3x12xbf16> {
  %n = "stablehlo.negate"(%1) : (tensor<6x8x7xf32>) -> tensor<6x8x7xf32>
  %2 = "stablehlo.concatenate"(%0, %n) <{dimension = 2 : i64}> : (tensor<6x8x5xf32>, tensor<6x8x7xf32>) -> tensor<6x8x12xf32>
  %3 = "stablehlo.convert"(%2) : (tensor<6x8x12xf32>) -> tensor<6x8x12xbf16>
  %4 = "stablehlo.reshape"(%3) : (tensor<6x8x12xbf16>) -> tensor<2x3x8x12xbf16>
  %5 = "stablehlo.transpose"(%4) <{permutation = array<i64: 0, 2, 1, 3>}> : (tensor<2x3x8x12xbf16>) -> tensor<2x8x3x12xbf16>
  func.return %5 : tensor<2x8x3x12xbf16>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[N:.*]] = "stablehlo.negate"(%1)
// CHECK-NEXT:   %[[A:.*]] = "stablehlo.convert"(%0) : (tensor<6x8x5xf32>) -> tensor<6x8x5xbf16>
// CHECK-NEXT:   %[[B:.*]] = "stablehlo.convert"(%[[N]]) : (tensor<6x8x7xf32>) -> tensor<6x8x7xbf16>
// CHECK-NEXT:   %[[C:.*]] = "stablehlo.reshape"(%[[A]]) : (tensor<6x8x5xbf16>) -> tensor<2x3x8x5xbf16>
// CHECK-NEXT:   %[[D:.*]] = "stablehlo.reshape"(%[[B]]) : (tensor<6x8x7xbf16>) -> tensor<2x3x8x7xbf16>
// CHECK-NEXT:   %[[E:.*]] = "stablehlo.transpose"(%[[C]]) <{permutation = array<i64: 0, 2, 1, 3>}>
// CHECK-NEXT:   %[[F:.*]] = "stablehlo.transpose"(%[[D]]) <{permutation = array<i64: 0, 2, 1, 3>}>
// CHECK-NEXT:   %[[G:.*]] = "stablehlo.concatenate"(%[[E]], %[[F]]) <{dimension = 3 : i64}>
// CHECK-NEXT:   func.return %[[G]]

// -----

// A transpose moves the dimension; what is read twice stays, as do what widens, a reshape that cuts the dimension, and a transpose of
// parts that are only moved.

func.func @main(%0: tensor<6x5xf32>, %1: tensor<6x7xf32>) -> (tensor<12x6xf32>, tensor<12x6xf64>, tensor<72xf32>, tensor<12x6xf32>, tensor<6x12xf32>, tensor<12x6xf32>) {
  %n = "stablehlo.negate"(%0) : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %2 = "stablehlo.concatenate"(%n, %1) <{dimension = 1 : i64}> : (tensor<6x5xf32>, tensor<6x7xf32>) -> tensor<6x12xf32>
  %3 = "stablehlo.transpose"(%2) <{permutation = array<i64: 1, 0>}> : (tensor<6x12xf32>) -> tensor<12x6xf32>
  %4 = "stablehlo.concatenate"(%n, %1) <{dimension = 1 : i64}> : (tensor<6x5xf32>, tensor<6x7xf32>) -> tensor<6x12xf32>
  %5 = "stablehlo.convert"(%4) : (tensor<6x12xf32>) -> tensor<6x12xf64>
  %6 = "stablehlo.reshape"(%5) : (tensor<6x12xf64>) -> tensor<12x6xf64>
  %7 = "stablehlo.concatenate"(%n, %1) <{dimension = 1 : i64}> : (tensor<6x5xf32>, tensor<6x7xf32>) -> tensor<6x12xf32>
  %8 = "stablehlo.reshape"(%7) : (tensor<6x12xf32>) -> tensor<72xf32>
  %9 = "stablehlo.concatenate"(%n, %1) <{dimension = 1 : i64}> : (tensor<6x5xf32>, tensor<6x7xf32>) -> tensor<6x12xf32>
  %10 = "stablehlo.transpose"(%9) <{permutation = array<i64: 1, 0>}> : (tensor<6x12xf32>) -> tensor<12x6xf32>
  %11 = "stablehlo.concatenate"(%0, %1) <{dimension = 1 : i64}> : (tensor<6x5xf32>, tensor<6x7xf32>) -> tensor<6x12xf32>
  %12 = "stablehlo.transpose"(%11) <{permutation = array<i64: 1, 0>}> : (tensor<6x12xf32>) -> tensor<12x6xf32>
  func.return %3, %6, %8, %10, %9, %12 : tensor<12x6xf32>, tensor<12x6xf64>, tensor<72xf32>, tensor<12x6xf32>, tensor<6x12xf32>, tensor<12x6xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[N:.*]] = "stablehlo.negate"(%0)
// CHECK-NEXT:   %[[A:.*]] = "stablehlo.transpose"(%[[N]])
// CHECK-NEXT:   %[[B:.*]] = "stablehlo.transpose"(%1)
// CHECK-NEXT:   %[[T:.*]] = "stablehlo.concatenate"(%[[A]], %[[B]]) <{dimension = 0 : i64}>
// CHECK-NEXT:   %[[C:.*]] = "stablehlo.concatenate"(%[[N]], %1)
// CHECK-NEXT:   %[[W:.*]] = "stablehlo.convert"(%[[C]])
// CHECK-NEXT:   "stablehlo.reshape"(%[[W]])
// CHECK-NEXT:   %[[D:.*]] = "stablehlo.concatenate"(%[[N]], %1)
// CHECK-NEXT:   "stablehlo.reshape"(%[[D]])
// CHECK-NEXT:   %[[E:.*]] = "stablehlo.concatenate"(%[[N]], %1)
// CHECK-NEXT:   "stablehlo.transpose"(%[[E]])
// CHECK-NEXT:   %[[F:.*]] = "stablehlo.concatenate"(%0, %1)
// CHECK-NEXT:   "stablehlo.transpose"(%[[F]])
// CHECK-NEXT:   func.return %[[T]],
