// cumsum along the rows, as jax writes it: a window as long as the row, padded in front.
module @running_sum {
  func.func @main(%x: tensor<7x100xf32>) -> tensor<7x100xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %r = "stablehlo.reduce_window"(%x, %zero) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {window_dimensions = array<i64: 1, 100>, padding = dense<[[0, 0], [99, 0]]> : tensor<2x2xi64>}
      : (tensor<7x100xf32>, tensor<f32>) -> tensor<7x100xf32>
    return %r : tensor<7x100xf32>
  }
}
