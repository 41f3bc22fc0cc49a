// RUN: %opt -p expand-random %s --split-input-file | filecheck %s

// Threefry: sums, rotations and exclusive ors of the numbers of the elements; the state counts on.

func.func @main(%0: tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>) {
  %1, %2 = "stablehlo.rng_bit_generator"(%0) <{rng_algorithm = "THREE_FRY"}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  func.return %1, %2 : tensor<2xui64>, tensor<4xui32>
}

// CHECK:      func.func @main(
// CHECK:         "stablehlo.iota"{{.*}}-> tensor<2xui64>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.shift_left"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.xor"{{.*}}-> tensor<2xui32>
// CHECK:         "stablehlo.concatenate"{{.*}}-> tensor<2xui64>
// CHECK:         "stablehlo.concatenate"{{.*}}-> tensor<2x2xui32>
// CHECK:           func.return %187, %192
