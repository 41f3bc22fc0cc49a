// A true that fills a vector was written as 0xFF: its complement was true again.
func.func @main(%a: tensor<7xi1>) -> (tensor<7xi1>, tensor<7xi1>) {
  %true = stablehlo.constant dense<true> : tensor<7xi1>
  %not = stablehlo.not %true : tensor<7xi1>
  %xor = stablehlo.xor %a, %true : tensor<7xi1>
  return %not, %xor : tensor<7xi1>, tensor<7xi1>
}
