// A loop inside of a loop, each with a number of turns only the data knows: steps of 3n + 1 for each of the first numbers.
module @collatz {
  func.func @main(%bits: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %seven = stablehlo.constant dense<7> : tensor<i32>
    %low = stablehlo.and %bits, %seven : tensor<i32>
    %last = stablehlo.add %low, %two : tensor<i32>
    %r:3 = stablehlo.while(%n = %one, %total = %zero, %most = %zero) : tensor<i32>, tensor<i32>, tensor<i32>
    cond {
      %more = stablehlo.compare LE, %n, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %s:2 = stablehlo.while(%v = %n, %count = %zero) : tensor<i32>, tensor<i32>
      cond {
        %more = stablehlo.compare NE, %v, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %bit = stablehlo.and %v, %one : tensor<i32>
        %w = "stablehlo.case"(%bit) ({
          %half = stablehlo.divide %v, %two : tensor<i32>
          stablehlo.return %half : tensor<i32>
        }, {
          %times = stablehlo.multiply %v, %three : tensor<i32>
          %odd = stablehlo.add %times, %one : tensor<i32>
          stablehlo.return %odd : tensor<i32>
        }) : (tensor<i32>) -> tensor<i32>
        %counted = stablehlo.add %count, %one : tensor<i32>
        stablehlo.return %w, %counted : tensor<i32>, tensor<i32>
      }
      %sum = stablehlo.add %total, %s#1 : tensor<i32>
      %larger = stablehlo.maximum %most, %s#1 : tensor<i32>
      %next = stablehlo.add %n, %one : tensor<i32>
      stablehlo.return %next, %sum, %larger : tensor<i32>, tensor<i32>, tensor<i32>
    }
    return %r#1, %r#2 : tensor<i32>, tensor<i32>
  }
}
