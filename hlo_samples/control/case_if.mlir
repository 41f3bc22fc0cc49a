// Branches: a selector of any value (out of range is the last branch), a pred, branches that only hand values on.
module @case_if {
  func.func @main(%k: tensor<i32>, %p: tensor<i1>, %x: tensor<7x65xi16>, %y: tensor<7x65xi16>)
      -> (tensor<7x65xi16>, tensor<7x65xi16>, tensor<7x65xi16>) {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %low = stablehlo.and %k, %three : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %i = stablehlo.subtract %low, %one : tensor<i32>
    %c:2 = "stablehlo.case"(%i) ({
      stablehlo.return %x, %y : tensor<7x65xi16>, tensor<7x65xi16>
    }, {
      %sum = stablehlo.add %x, %y : tensor<7x65xi16>
      stablehlo.return %sum, %sum : tensor<7x65xi16>, tensor<7x65xi16>
    }, {
      stablehlo.return %y, %x : tensor<7x65xi16>, tensor<7x65xi16>
    }) : (tensor<i32>) -> (tensor<7x65xi16>, tensor<7x65xi16>)
    %d = "stablehlo.if"(%p) ({
      %zero = stablehlo.constant dense<0> : tensor<7x65xi16>
      stablehlo.return %zero : tensor<7x65xi16>
    }, {
      %product = stablehlo.multiply %c#0, %y : tensor<7x65xi16>
      stablehlo.return %product : tensor<7x65xi16>
    }) : (tensor<i1>) -> tensor<7x65xi16>
    return %c#0, %c#1, %d : tensor<7x65xi16>, tensor<7x65xi16>, tensor<7x65xi16>
  }
}
