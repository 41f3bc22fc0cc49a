// RUN: %opt -p expand-top-k %s --split-input-file | filecheck %s

// Of one in a row of 100: the keys of all, with numbers of 64 bits, the smallest of those.

func.func @main(%0: tensor<2x100xf32>) -> (tensor<2x1xf32>, tensor<2x1xi32>) {
  %1, %2 = "chlo.top_k"(%0) <{k = 1 : i64}> : (tensor<2x100xf32>) -> (tensor<2x1xf32>, tensor<2x1xi32>)
  func.return %1, %2 : tensor<2x1xf32>, tensor<2x1xi32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.shift_right_arithmetic"{{.*}}-> tensor<2x100xi32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2x100xi64>
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.minimum"{{.*}}-> tensor<i64>
// CHECK:         "stablehlo.shift_right_arithmetic"{{.*}}-> tensor<2x1xi64>
// CHECK:         "stablehlo.bitcast_convert"{{.*}}-> tensor<2x1xf32>

// -----

// Of nine in a row of 2001: the largest of each block of 8, and of the last one; the blocks where those are largest, by rank; what these
// blocks have, each with its number, and of that the largest.

func.func @main(%0: tensor<2x2001xf32>) -> (tensor<2x9xf32>, tensor<2x9xi32>) {
  %1, %2 = "chlo.top_k"(%0) <{k = 9 : i64}> : (tensor<2x2001xf32>) -> (tensor<2x9xf32>, tensor<2x9xi32>)
  func.return %1, %2 : tensor<2x9xf32>, tensor<2x9xi32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<2x2000xf32>
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.maximum"{{.*}}-> tensor<i32>
// CHECK:         -> tensor<2x250xi32>
// CHECK:         "stablehlo.slice"{{.*}}-> tensor<2x1xf32>
// CHECK:         "stablehlo.concatenate"{{.*}}-> tensor<2x251xi32>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<2x251x251xi1>
// CHECK:         "stablehlo.reduce"
// CHECK:         "stablehlo.add"{{.*}}-> tensor<f32>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<2x9x251xi1>
// CHECK:         "stablehlo.gather"{{.*}}slice_sizes = array<i64: 8>{{.*}}-> tensor<18x8xf32>
// CHECK:         "stablehlo.compare"{{.*}}-> tensor<2x72x72xi1>
// CHECK:         "stablehlo.bitcast_convert"{{.*}}-> tensor<2x9xf32>

// -----

// Many rows are sorted instead of ranked; keys of 16 bits are one word with their numbers, of numbers and one bit more.

func.func @main(%0: tensor<300x2000xbf16>) -> (tensor<300x20xbf16>, tensor<300x20xi32>) {
  %1, %2 = "chlo.top_k"(%0) <{k = 20 : i64}> : (tensor<300x2000xbf16>) -> (tensor<300x20xbf16>, tensor<300x20xi32>)
  func.return %1, %2 : tensor<300x20xbf16>, tensor<300x20xi32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.bitcast_convert"{{.*}}-> tensor<300x200x10xi16>
// CHECK:         "stablehlo.maximum"{{.*}}-> tensor<i16>
// CHECK:         %{{[0-9]+}} = "hlo.sort_words"(%{{[0-9]+}}){{.*}}(tensor<320x1x1x256x1xf32>)
// CHECK:         "stablehlo.gather"{{.*}}-> tensor<6000x10xbf16>
// CHECK:         %{{[0-9]+}} = "hlo.sort_words"(%{{[0-9]+}}){{.*}}(tensor<320x1x1x256x1xf32>)

// -----

// A short row stays.

func.func @main(%0: tensor<2x50xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
  %1, %2 = "chlo.top_k"(%0) <{k = 3 : i64}> : (tensor<2x50xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)
  func.return %1, %2 : tensor<2x3xf32>, tensor<2x3xi32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   %1, %2 = "chlo.top_k"(%0){{.*}}-> (tensor<2x3xf32>, tensor<2x3xi32>)
// CHECK-NEXT:   func.return %1, %2
