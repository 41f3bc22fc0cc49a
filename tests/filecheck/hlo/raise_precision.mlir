// RUN: %opt -p 'raise-precision{matmul_precision=high}' %s --split-input-file | filecheck %s

// What says nothing or DEFAULT becomes HIGH; HIGHEST and an algorithm stay.

func.func @main(%0: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %1 = "stablehlo.dot_general"(%0, %0) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = "stablehlo.dot_general"(%1, %0) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %3 = "stablehlo.dot_general"(%2, %0) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["HIGHEST", "HIGHEST"]}> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  func.return %3 : tensor<3x3xf32>
}

// CHECK:      %1 = "stablehlo.dot_general"(%0, %0) {{.*}}precision_config = ["HIGH", "HIGH"]
// CHECK-NEXT: %2 = "stablehlo.dot_general"(%1, %0) {{.*}}precision_config = ["HIGH", "HIGH"]
// CHECK-NEXT: %3 = "stablehlo.dot_general"(%2, %0) {{.*}}precision_config = ["HIGHEST", "HIGHEST"]
