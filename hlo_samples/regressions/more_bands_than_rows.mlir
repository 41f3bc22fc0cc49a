// Windows beside the image: the result has a row more than the image, and a turn of the group computes one.
func.func @main(%a: tensor<1x8x12x3xbf16>) -> tensor<1x9x13x3xbf16> {
  %zero = stablehlo.constant dense<0.0> : tensor<bf16>
  %sums = "stablehlo.reduce_window"(%a, %zero) ({
  ^bb0(%x: tensor<bf16>, %y: tensor<bf16>):
    %sum = stablehlo.add %x, %y : tensor<bf16>
    stablehlo.return %sum : tensor<bf16>
  }) {window_dimensions = array<i64: 1, 2, 2, 1>, padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>}
    : (tensor<1x8x12x3xbf16>, tensor<bf16>) -> tensor<1x9x13x3xbf16>
  return %sums : tensor<1x9x13x3xbf16>
}
