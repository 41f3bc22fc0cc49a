// A pred is one bit: eight of them are a byte, and a byte is eight of them.
func.func @main(%a: tensor<5x16xi1>, %b: tensor<3xi32>) -> (tensor<5xui16>, tensor<3x32xi1>) {
  %word = stablehlo.bitcast_convert %a : (tensor<5x16xi1>) -> tensor<5xui16>
  %bits = stablehlo.bitcast_convert %b : (tensor<3xi32>) -> tensor<3x32xi1>
  return %word, %bits : tensor<5xui16>, tensor<3x32xi1>
}
