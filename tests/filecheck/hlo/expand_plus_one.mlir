// RUN: %opt -p expand-plus-one %s --split-input-file | filecheck %s

// In f32 what x is multiplied with divides what is rounded by itself. Infinity is not divided by itself.

func.func @main(%x: tensor<64x128xf32>) -> (tensor<64x128xf32>, tensor<64x128xf32>) {
  %0 = "stablehlo.log_plus_one"(%x) : (tensor<64x128xf32>) -> tensor<64x128xf32>
  %1 = "stablehlo.exponential_minus_one"(%x) : (tensor<64x128xf32>) -> tensor<64x128xf32>
  func.return %0, %1 : tensor<64x128xf32>, tensor<64x128xf32>
}

// CHECK:      func.func @main(
// CHECK:        %[[U:[0-9]+]] = "stablehlo.add"(%x
// CHECK:        %[[D:[0-9]+]] = "stablehlo.subtract"(%[[U]]
// CHECK:        %[[L:[0-9]+]] = "stablehlo.log"(%[[U]])
// CHECK:        %[[M:[0-9]+]] = "stablehlo.minimum"(%[[D]]
// CHECK:        %[[Q:[0-9]+]] = "stablehlo.divide"(%x, %[[M]])
// CHECK:        %[[P:[0-9]+]] = "stablehlo.multiply"(%[[L]], %[[Q]])
// CHECK:        %[[IS:[0-9]+]] = "stablehlo.compare"(%[[D]]
// CHECK:        "stablehlo.select"(%[[IS]], %x, %[[P]])
// CHECK:        "stablehlo.maximum"(%x
// CHECK:        "stablehlo.exponential"
// CHECK:        "stablehlo.log"
// CHECK:        "stablehlo.select"

// -----

// 16 bits are computed in f32, and are x where it is small.

func.func @main(%x: tensor<8192xbf16>) -> tensor<8192xbf16> {
  %0 = "stablehlo.exponential_minus_one"(%x) : (tensor<8192xbf16>) -> tensor<8192xbf16>
  func.return %0 : tensor<8192xbf16>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %[[W:[0-9]+]] = "stablehlo.convert"(%x) : (tensor<8192xbf16>) -> tensor<8192xf32>
// CHECK:        %[[A:[0-9]+]] = "stablehlo.abs"(%[[W]])
// CHECK:        %[[IS:[0-9]+]] = "stablehlo.compare"(%[[A]]
// CHECK:        %[[U:[0-9]+]] = "stablehlo.exponential"(%[[W]])
// CHECK:        %[[D:[0-9]+]] = "stablehlo.subtract"(%[[U]]
// CHECK:        %[[S:[0-9]+]] = "stablehlo.select"(%[[IS]], %[[W]], %[[D]])
// CHECK:        "stablehlo.convert"(%[[S]]) : (tensor<8192xf32>) -> tensor<8192xbf16>

// -----

// The kernel core keeps what is small, and f64.

func.func @main(%x: tensor<100xf32>, %y: tensor<8192xf64>) -> (tensor<100xf32>, tensor<8192xf64>) {
  %0 = "stablehlo.log_plus_one"(%x) : (tensor<100xf32>) -> tensor<100xf32>
  %1 = "stablehlo.log_plus_one"(%y) : (tensor<8192xf64>) -> tensor<8192xf64>
  func.return %0, %1 : tensor<100xf32>, tensor<8192xf64>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   "stablehlo.log_plus_one"
// CHECK-NEXT:   "stablehlo.log_plus_one"
// CHECK-NEXT:   func.return
