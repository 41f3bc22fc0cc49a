// RUN: %opt -p group-fusions --split-input-file %s | filecheck %s

// A dot, and a fusion of whole rows that alone reads its result, become a group; rows of a chunk and of a step are on it.

builtin.module @grouped {
  func.func public @main(%q: tensor<64x128x64xbf16>, %k: tensor<64x128x64xbf16>) -> tensor<64x128x128xbf16> {
    %0 = "hlo.fusion"(%q, %k) <{kind = "kLoop", fusion_name = "scores"}> ({
    ^bb0(%a: tensor<64x128x64xbf16>, %b: tensor<64x128x64xbf16>):
      %1 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<64x128x64xbf16>, tensor<64x128x64xbf16>) -> tensor<64x128x128xbf16>
      "stablehlo.return"(%1) : (tensor<64x128x128xbf16>) -> ()
    }) : (tensor<64x128x64xbf16>, tensor<64x128x64xbf16>) -> tensor<64x128x128xbf16>
    %2 = "hlo.fusion"(%0) <{kind = "kLoop", fusion_name = "less_maximum"}> ({
    ^bb1(%x: tensor<64x128x128xbf16>):
      %low = "stablehlo.constant"() <{value = #hlo.literal<"bfloat16", [], "gP8=">}> : () -> tensor<bf16>
      %m = "stablehlo.reduce"(%x, %low) <{dimensions = array<i64: 2>}> ({
      ^bb2(%c: tensor<bf16>, %d: tensor<bf16>):
        %e = "stablehlo.maximum"(%c, %d) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
        "stablehlo.return"(%e) : (tensor<bf16>) -> ()
      }) : (tensor<64x128x128xbf16>, tensor<bf16>) -> tensor<64x128xbf16>
      %w = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<64x128xbf16>) -> tensor<64x128x128xbf16>
      %y = "stablehlo.subtract"(%x, %w) : (tensor<64x128x128xbf16>, tensor<64x128x128xbf16>) -> tensor<64x128x128xbf16>
      "stablehlo.return"(%y) : (tensor<64x128x128xbf16>) -> ()
    }) : (tensor<64x128x128xbf16>) -> tensor<64x128x128xbf16>
    func.return %2 : tensor<64x128x128xbf16>
  }
}

// CHECK-LABEL: builtin.module @grouped
// CHECK:         [[G:%[0-9]+]] = "hlo.group"(%q, %k) <{rows = array<i64: {{[0-9]+, [0-9]+}}>}>
// CHECK:           [[S:%[0-9]+]] = "hlo.fusion"({{.*}}fusion_name = "scores"
// CHECK:           [[Y:%[0-9]+]] = "hlo.fusion"([[S]]) {{.*}}fusion_name = "less_maximum"
// CHECK:           "stablehlo.return"([[Y]])
// CHECK:         func.return [[G]]

// -----

// A result that is the program's too goes to memory: no group.

builtin.module @read_twice {
  func.func public @main(%q: tensor<64x128x64xbf16>, %k: tensor<64x128x64xbf16>) -> (tensor<64x128x128xbf16>, tensor<64x128x128xbf16>) {
    %0 = "hlo.fusion"(%q, %k) <{kind = "kLoop", fusion_name = "scores"}> ({
    ^bb0(%a: tensor<64x128x64xbf16>, %b: tensor<64x128x64xbf16>):
      %1 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<64x128x64xbf16>, tensor<64x128x64xbf16>) -> tensor<64x128x128xbf16>
      "stablehlo.return"(%1) : (tensor<64x128x128xbf16>) -> ()
    }) : (tensor<64x128x64xbf16>, tensor<64x128x64xbf16>) -> tensor<64x128x128xbf16>
    %2 = "hlo.fusion"(%0) <{kind = "kLoop", fusion_name = "less_maximum"}> ({
    ^bb1(%x: tensor<64x128x128xbf16>):
      %low = "stablehlo.constant"() <{value = #hlo.literal<"bfloat16", [], "gP8=">}> : () -> tensor<bf16>
      %m = "stablehlo.reduce"(%x, %low) <{dimensions = array<i64: 2>}> ({
      ^bb2(%c: tensor<bf16>, %d: tensor<bf16>):
        %e = "stablehlo.maximum"(%c, %d) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
        "stablehlo.return"(%e) : (tensor<bf16>) -> ()
      }) : (tensor<64x128x128xbf16>, tensor<bf16>) -> tensor<64x128xbf16>
      %w = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<64x128xbf16>) -> tensor<64x128x128xbf16>
      %y = "stablehlo.subtract"(%x, %w) : (tensor<64x128x128xbf16>, tensor<64x128x128xbf16>) -> tensor<64x128x128xbf16>
      "stablehlo.return"(%y) : (tensor<64x128x128xbf16>) -> ()
    }) : (tensor<64x128x128xbf16>) -> tensor<64x128x128xbf16>
    func.return %0, %2 : tensor<64x128x128xbf16>, tensor<64x128x128xbf16>
  }
}

// CHECK-LABEL: builtin.module @read_twice
// CHECK-NOT:     hlo.group

// -----

// A convolution and what alone reads its result, both by bands of rows; what both read is copied to SPM once.

builtin.module @bands {
  func.func public @main(%x: tensor<8x56x56x64xbf16>, %w: tensor<1x1x64x64xbf16>) -> tensor<8x56x56x64xbf16> {
    %0 = "hlo.fusion"(%x, %w) <{kind = "kLoop", fusion_name = "convolution"}> ({
    ^bb0(%a: tensor<8x56x56x64xbf16>, %b: tensor<1x1x64x64xbf16>):
      %1 = "stablehlo.reshape"(%b) : (tensor<1x1x64x64xbf16>) -> tensor<64x64xbf16>
      %2 = "stablehlo.dot_general"(%a, %1) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<8x56x56x64xbf16>, tensor<64x64xbf16>) -> tensor<8x56x56x64xbf16>
      "stablehlo.return"(%2) : (tensor<8x56x56x64xbf16>) -> ()
    }) : (tensor<8x56x56x64xbf16>, tensor<1x1x64x64xbf16>) -> tensor<8x56x56x64xbf16>
    %3 = "hlo.fusion"(%0, %x) <{kind = "kLoop", fusion_name = "residual"}> ({
    ^bb1(%c: tensor<8x56x56x64xbf16>, %d: tensor<8x56x56x64xbf16>):
      %4 = "stablehlo.add"(%c, %d) : (tensor<8x56x56x64xbf16>, tensor<8x56x56x64xbf16>) -> tensor<8x56x56x64xbf16>
      "stablehlo.return"(%4) : (tensor<8x56x56x64xbf16>) -> ()
    }) : (tensor<8x56x56x64xbf16>, tensor<8x56x56x64xbf16>) -> tensor<8x56x56x64xbf16>
    func.return %3 : tensor<8x56x56x64xbf16>
  }
}

// CHECK-LABEL: builtin.module @bands
// CHECK:         [[G:%[0-9]+]] = "hlo.group"(%x, %w) <{band = {{[0-9]+}} : i64}>
// CHECK-NEXT:    ^bb{{[0-9]+}}([[X:%[a-z0-9_]+]]: tensor<8x56x56x64xbf16>, [[W:%[a-z0-9_]+]]: tensor<1x1x64x64xbf16>):
// CHECK-NEXT:      [[C:%[0-9]+]] = "hlo.fusion"([[X]]) {{.*}}fusion_name = "copy_fusion"
// CHECK:             "hlo.copy"
// CHECK:           [[S:%[0-9]+]] = "hlo.fusion"([[C]], [[W]]) {{.*}}fusion_name = "convolution"
// CHECK:           [[R:%[0-9]+]] = "hlo.fusion"([[S]], [[C]]) {{.*}}fusion_name = "residual"
// CHECK:           "stablehlo.return"([[R]])
// CHECK:         func.return [[G]]

// -----

// A sum of rows, and what reads the rows again with it: phases, whose group has the sum as a result too. What reads the sum in front
// of the last phase moves behind the group.

builtin.module @phases {
  func.func public @main(%x: tensor<16x65536xf32>) -> (tensor<16x65536xf32>, tensor<16xf32>, tensor<16xf32>) {
    %0 = "hlo.fusion"(%x) <{kind = "kLoop", fusion_name = "sum"}> ({
    ^bb0(%a: tensor<16x65536xf32>):
      %zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
      %s = "stablehlo.reduce"(%a, %zero) <{dimensions = array<i64: 1>}> ({
      ^bb1(%c: tensor<f32>, %d: tensor<f32>):
        %e = "stablehlo.add"(%c, %d) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%e) : (tensor<f32>) -> ()
      }) : (tensor<16x65536xf32>, tensor<f32>) -> tensor<16xf32>
      "stablehlo.return"(%s) : (tensor<16xf32>) -> ()
    }) : (tensor<16x65536xf32>) -> tensor<16xf32>
    %1 = "hlo.fusion"(%0) <{kind = "kLoop", fusion_name = "other"}> ({
    ^bb2(%f: tensor<16xf32>):
      %g = "stablehlo.abs"(%f) : (tensor<16xf32>) -> tensor<16xf32>
      "stablehlo.return"(%g) : (tensor<16xf32>) -> ()
    }) : (tensor<16xf32>) -> tensor<16xf32>
    %2 = "hlo.fusion"(%0, %x) <{kind = "kLoop", fusion_name = "rest"}> ({
    ^bb3(%h: tensor<16xf32>, %i: tensor<16x65536xf32>):
      %j = "stablehlo.broadcast_in_dim"(%h) <{broadcast_dimensions = array<i64: 0>}> : (tensor<16xf32>) -> tensor<16x65536xf32>
      %k = "stablehlo.subtract"(%i, %j) : (tensor<16x65536xf32>, tensor<16x65536xf32>) -> tensor<16x65536xf32>
      "stablehlo.return"(%k) : (tensor<16x65536xf32>) -> ()
    }) : (tensor<16xf32>, tensor<16x65536xf32>) -> tensor<16x65536xf32>
    func.return %2, %1, %0 : tensor<16x65536xf32>, tensor<16xf32>, tensor<16xf32>
  }
}

// CHECK-LABEL: builtin.module @phases
// CHECK:         [[P:%[0-9]+]], [[Q:%[0-9]+]] = "hlo.group"(%x) <{phases}>
// CHECK:           [[SUM:%[0-9]+]] = "hlo.fusion"({{.*}}fusion_name = "sum"
// CHECK:           [[REST:%[0-9]+]] = "hlo.fusion"([[SUM]], {{.*}}fusion_name = "rest"
// CHECK:           "stablehlo.return"([[SUM]], [[REST]])
// CHECK:         [[OTHER:%[0-9]+]] = "hlo.fusion"([[P]]) {{.*}}fusion_name = "other"
// CHECK:         func.return [[Q]], [[OTHER]], [[P]]

// -----

// Products of as many rows, each of which reads the one before, and of whose columns each tile of a mesh row has whole blocks, may be
// phases.

builtin.module @products {
  func.func public @main(%x: tensor<64x256xbf16>, %w: tensor<256x256xbf16>) -> tensor<64x256xbf16> {
    %0 = "hlo.fusion"(%x, %w) <{kind = "kLoop", fusion_name = "first"}> ({
    ^bb0(%a: tensor<64x256xbf16>, %b: tensor<256x256xbf16>):
      %1 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<64x256xbf16>, tensor<256x256xbf16>) -> tensor<64x256xbf16>
      "stablehlo.return"(%1) : (tensor<64x256xbf16>) -> ()
    }) : (tensor<64x256xbf16>, tensor<256x256xbf16>) -> tensor<64x256xbf16>
    %2 = "hlo.fusion"(%0, %w) <{kind = "kLoop", fusion_name = "second"}> ({
    ^bb1(%c: tensor<64x256xbf16>, %d: tensor<256x256xbf16>):
      %3 = "stablehlo.dot_general"(%c, %d) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<64x256xbf16>, tensor<256x256xbf16>) -> tensor<64x256xbf16>
      "stablehlo.return"(%3) : (tensor<64x256xbf16>) -> ()
    }) : (tensor<64x256xbf16>, tensor<256x256xbf16>) -> tensor<64x256xbf16>
    func.return %2 : tensor<64x256xbf16>
  }
}

// CHECK-LABEL: builtin.module @products
// CHECK:         [[P:%[0-9]+]] = "hlo.group"(%x, %w) <{phases}>
// CHECK:           [[F:%[0-9]+]] = "hlo.fusion"({{.*}}fusion_name = "first"
// CHECK:           "hlo.fusion"([[F]], {{.*}}fusion_name = "second"
// CHECK:         func.return [[P]]

// -----

// A result that a reader needs for arithmetic on its elements is made anew there of another one, by a few instructions; not one that a
// product reads, and not if that takes longer than memory.

builtin.module @made_anew {
  func.func public @main(%x: tensor<1024x1024xf32>, %w: tensor<1024x64xf32>, %d: tensor<1024x1024xf32>) -> (tensor<1024x64xf32>, tensor<1024x1024xf32>) {
    %0, %1, %2 = "hlo.fusion"(%x) <{kind = "kLoop", fusion_name = "activation"}> ({
    ^bb0(%a: tensor<1024x1024xf32>):
      %h = "stablehlo.sine"(%a) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %t = "stablehlo.tanh"(%h) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %y = "stablehlo.multiply"(%h, %t) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      "stablehlo.return"(%y, %t, %h) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> ()
    }) : (tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>)
    %3 = "hlo.fusion"(%0, %w) <{kind = "kLoop", fusion_name = "product"}> ({
    ^bb1(%b: tensor<1024x1024xf32>, %c: tensor<1024x64xf32>):
      %4 = "stablehlo.dot_general"(%b, %c) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<1024x1024xf32>, tensor<1024x64xf32>) -> tensor<1024x64xf32>
      "stablehlo.return"(%4) : (tensor<1024x64xf32>) -> ()
    }) : (tensor<1024x1024xf32>, tensor<1024x64xf32>) -> tensor<1024x64xf32>
    %5 = "hlo.fusion"(%d, %1, %2) <{kind = "kLoop", fusion_name = "gradient"}> ({
    ^bb2(%e: tensor<1024x1024xf32>, %f: tensor<1024x1024xf32>, %g: tensor<1024x1024xf32>):
      %6 = "stablehlo.multiply"(%e, %f) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %7 = "stablehlo.add"(%6, %g) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      "stablehlo.return"(%7) : (tensor<1024x1024xf32>) -> ()
    }) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    func.return %3, %5 : tensor<1024x64xf32>, tensor<1024x1024xf32>
  }
}

// CHECK-LABEL: builtin.module @made_anew
// CHECK:         [[Y:%[0-9]+]], [[H:%[0-9]+]] = "hlo.fusion"(%x) {{.*}}fusion_name = "activation"
// CHECK:           [[HI:%h]] = "stablehlo.sine"
// CHECK:           [[TI:%t]] = "stablehlo.tanh"([[HI]])
// CHECK:           "stablehlo.return"({{%y[_0-9]*}}, [[HI]])
// CHECK:         "hlo.fusion"([[Y]], %w) {{.*}}fusion_name = "product"
// CHECK:         "hlo.fusion"(%d, [[H]]) {{.*}}fusion_name = "gradient"
// CHECK-NEXT:    ^bb{{[0-9]+}}([[E:%[a-z0-9_]+]]: tensor<1024x1024xf32>, [[G:%[a-z0-9_]+]]: tensor<1024x1024xf32>):
// CHECK-NEXT:      [[T:%[a-z0-9_]+]] = "stablehlo.tanh"([[G]])
// CHECK-NEXT:      "stablehlo.multiply"([[E]], [[T]])
