// L X = B for a batch; L comes from x * x + 1 below the diagonal, so that it is far from singular.
module @solve {
  func.func @main(%x: tensor<2x11x11xf32>, %b: tensor<2x11x5xf32>) -> tensor<2x11x5xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<2x11x11xf32>
    %square = stablehlo.multiply %x, %x : tensor<2x11x11xf32>
    %l = stablehlo.add %square, %one : tensor<2x11x11xf32>
    %r = "stablehlo.triangular_solve"(%l, %b) {left_side = true, lower = true, unit_diagonal = false,
      transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<2x11x11xf32>, tensor<2x11x5xf32>) -> tensor<2x11x5xf32>
    return %r : tensor<2x11x5xf32>
  }
}
