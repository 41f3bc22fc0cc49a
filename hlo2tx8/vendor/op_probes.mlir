// Modules of one operation for ops without samples, and of ops that often stand together, in sections `// ----- op: dtypes: sizes`.
// T is the element type, ONE a number of it. A size is NAME=DEFAULT:LEAST..MOST, or NAME=A|B of words; ${A+h-1} is a sum of products.
// Modules with default sizes are those of an op's first section.
// ----- stablehlo.reduce: all: A=5:1..129 B=70:1..300 op=add|multiply
func.func public @main(%a: tensor<${A}x${B}xT>, %z: tensor<T>) -> tensor<${A}xT> {
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.${op} across dimensions = [1] : (tensor<${A}x${B}xT>, tensor<T>) -> tensor<${A}xT>
  return %r : tensor<${A}xT>
}
// ----- stablehlo.reduce_window: all: A=4:1..40 B=68:1..129 h=2:1..3 w=3:1..4
func.func public @main(%a: tensor<${A+h-1}x${B+w-1}xT>, %z: tensor<T>) -> tensor<${A}x${B}xT> {
  %r = "stablehlo.reduce_window"(%a, %z) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.add %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {window_dimensions = array<i64: ${h}, ${w}>} : (tensor<${A+h-1}x${B+w-1}xT>, tensor<T>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.select_and_scatter: ordered: A=3:1..20 B=3:1..40 h=2:1..3 w=3:1..3 op=GE|LE
func.func public @main(%a: tensor<${A*h}x${B*w}xT>, %b: tensor<${A}x${B}xT>, %z: tensor<T>) -> tensor<${A*h}x${B*w}xT> {
  %r = "stablehlo.select_and_scatter"(%a, %b, %z) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %p = stablehlo.compare ${op}, %x, %y : (tensor<T>, tensor<T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.add %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {window_dimensions = array<i64: ${h}, ${w}>, window_strides = array<i64: ${h}, ${w}>}
    : (tensor<${A*h}x${B*w}xT>, tensor<${A}x${B}xT>, tensor<T>) -> tensor<${A*h}x${B*w}xT>
  return %r : tensor<${A*h}x${B*w}xT>
}
// ----- stablehlo.sort: ordered: A=5:1..40 B=33:1..200 op=LT|GT
func.func public @main(%a: tensor<${A}x${B}xT>) -> tensor<${A}x${B}xT> {
  %r = "stablehlo.sort"(%a) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %p = stablehlo.compare ${op}, %x, %y : (tensor<T>, tensor<T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 1 : i64, is_stable = true} : (tensor<${A}x${B}xT>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.scatter: all: A=9:1..64 B=4:1..100 N=3:1..32 op=add|multiply
func.func public @main(%a: tensor<${A}x${B}xT>, %i: tensor<${N}x1xi32>, %u: tensor<${N}x${B}xT>) -> tensor<${A}x${B}xT> {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.${op} %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
    : (tensor<${A}x${B}xT>, tensor<${N}x1xi32>, tensor<${N}x${B}xT>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.gather: all: A=9:1..64 B=4:1..100 N=3:1..32
func.func public @main(%a: tensor<${A}x${B}xT>, %i: tensor<${N}x1xi32>) -> tensor<${N}x${B}xT> {
  %r = "stablehlo.gather"(%a, %i) {slice_sizes = array<i64: 1, ${B}>, dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<${A}x${B}xT>, tensor<${N}x1xi32>) -> tensor<${N}x${B}xT>
  return %r : tensor<${N}x${B}xT>
}
// ----- stablehlo.torch_index_select: all: A=9:1..64 B=4:1..100 N=3:1..32
func.func public @main(%a: tensor<${A}x${B}xT>, %i: tensor<${N}xi32>) -> tensor<${N}x${B}xT> {
  %r = "stablehlo.torch_index_select"(%a, %i) {dim = 0 : i64, batch_dims = 0 : i64}
    : (tensor<${A}x${B}xT>, tensor<${N}xi32>) -> tensor<${N}x${B}xT>
  return %r : tensor<${N}x${B}xT>
}
// ----- stablehlo.dot: numbers: M=16:1..129 K=32:1..200 N=8:1..129
func.func public @main(%a: tensor<${M}x${K}xT>, %b: tensor<${K}x${N}xT>) -> tensor<${M}x${N}xT> {
  %r = stablehlo.dot %a, %b : (tensor<${M}x${K}xT>, tensor<${K}x${N}xT>) -> tensor<${M}x${N}xT>
  return %r : tensor<${M}x${N}xT>
}
// ----- stablehlo.dot_general: numbers: B=2:1..5 M=16:1..65 K=32:1..129 N=8:1..65
func.func public @main(%a: tensor<${B}x${M}x${K}xT>, %b: tensor<${B}x${K}x${N}xT>) -> tensor<${B}x${M}x${N}xT> {
  %r = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<${B}x${M}x${K}xT>, tensor<${B}x${K}x${N}xT>) -> tensor<${B}x${M}x${N}xT>
  return %r : tensor<${B}x${M}x${N}xT>
}
// ----- stablehlo.convolution: numbers: N=2:1..3 H=4:1..9 W=5:1..12 C=4:1..40 O=8:1..70 h=3:1..4 w=3:1..3
func.func public @main(%a: tensor<${N}x${H+h-1}x${W+w-1}x${C}xT>, %b: tensor<${h}x${w}x${C}x${O}xT>) -> tensor<${N}x${H}x${W}x${O}xT> {
  %r = "stablehlo.convolution"(%a, %b) {dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
      feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<${N}x${H+h-1}x${W+w-1}x${C}xT>, tensor<${h}x${w}x${C}x${O}xT>) -> tensor<${N}x${H}x${W}x${O}xT>
  return %r : tensor<${N}x${H}x${W}x${O}xT>
}
// ----- stablehlo.batch_norm_inference: floats: A=4:2..60 C=8:1..200
func.func public @main(%a: tensor<${A}x${C}xT>, %b: tensor<${C}xT>, %c: tensor<${C}xT>, %d: tensor<${C}xT>, %e: tensor<${C}xT>) -> tensor<${A}x${C}xT> {
  %r = "stablehlo.batch_norm_inference"(%a, %b, %c, %d, %e) {epsilon = 0.001 : f32, feature_index = 1 : i64}
    : (tensor<${A}x${C}xT>, tensor<${C}xT>, tensor<${C}xT>, tensor<${C}xT>, tensor<${C}xT>) -> tensor<${A}x${C}xT>
  return %r : tensor<${A}x${C}xT>
}
// ----- stablehlo.batch_norm_training: floats: A=4:2..60 C=8:1..200
func.func public @main(%a: tensor<${A}x${C}xT>, %b: tensor<${C}xT>, %c: tensor<${C}xT>) -> (tensor<${A}x${C}xT>, tensor<${C}xT>, tensor<${C}xT>) {
  %r:3 = "stablehlo.batch_norm_training"(%a, %b, %c) {epsilon = 0.001 : f32, feature_index = 1 : i64}
    : (tensor<${A}x${C}xT>, tensor<${C}xT>, tensor<${C}xT>) -> (tensor<${A}x${C}xT>, tensor<${C}xT>, tensor<${C}xT>)
  return %r#0, %r#1, %r#2 : tensor<${A}x${C}xT>, tensor<${C}xT>, tensor<${C}xT>
}
// ----- stablehlo.batch_norm_grad: floats: A=4:2..60 C=8:1..200
func.func public @main(%a: tensor<${A}x${C}xT>, %b: tensor<${C}xT>, %c: tensor<${C}xT>, %d: tensor<${C}xT>, %e: tensor<${A}x${C}xT>)
    -> (tensor<${A}x${C}xT>, tensor<${C}xT>, tensor<${C}xT>) {
  %r:3 = "stablehlo.batch_norm_grad"(%a, %b, %c, %d, %e) {epsilon = 0.001 : f32, feature_index = 1 : i64}
    : (tensor<${A}x${C}xT>, tensor<${C}xT>, tensor<${C}xT>, tensor<${C}xT>, tensor<${A}x${C}xT>) -> (tensor<${A}x${C}xT>, tensor<${C}xT>, tensor<${C}xT>)
  return %r#0, %r#1, %r#2 : tensor<${A}x${C}xT>, tensor<${C}xT>, tensor<${C}xT>
}
// ----- stablehlo.cholesky: solved: A=4:1..12 op=true|false
func.func public @main(%a: tensor<${A}x${A}xT>) -> tensor<${A}x${A}xT> {
  %r = "stablehlo.cholesky"(%a) {lower = ${op}} : (tensor<${A}x${A}xT>) -> tensor<${A}x${A}xT>
  return %r : tensor<${A}x${A}xT>
}
// ----- stablehlo.triangular_solve: solved: A=4:1..12 B=3:1..9 op=true|false unit=false|true
func.func public @main(%a: tensor<${A}x${A}xT>, %b: tensor<${A}x${B}xT>) -> tensor<${A}x${B}xT> {
  %r = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = ${op}, unit_diagonal = ${unit},
      transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<${A}x${A}xT>, tensor<${A}x${B}xT>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.dynamic_slice: all: A=3:1..9 B=33:1..65 a=6:0..5 b=37:0..40
func.func public @main(%a: tensor<${A+a}x${B+b}xT>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<${A}x${B}xT> {
  %r = stablehlo.dynamic_slice %a, %i, %j, sizes = [${A}, ${B}] : (tensor<${A+a}x${B+b}xT>, tensor<i32>, tensor<i32>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.dynamic_update_slice: all: A=3:1..9 B=33:1..65 a=6:0..5 b=37:0..40
func.func public @main(%a: tensor<${A+a}x${B+b}xT>, %u: tensor<${A}x${B}xT>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<${A+a}x${B+b}xT> {
  %r = stablehlo.dynamic_update_slice %a, %u, %i, %j : (tensor<${A+a}x${B+b}xT>, tensor<${A}x${B}xT>, tensor<i32>, tensor<i32>) -> tensor<${A+a}x${B+b}xT>
  return %r : tensor<${A+a}x${B+b}xT>
}
// ----- stablehlo.real_dynamic_slice: all: A=4:1..60 s=2:1..3
func.func public @main(%a: tensor<${A*s+1}xT>) -> tensor<${A}xT> {
  %s = stablehlo.constant dense<1> : tensor<1xi64>
  %l = stablehlo.constant dense<${A*s+1}> : tensor<1xi64>
  %d = stablehlo.constant dense<${s}> : tensor<1xi64>
  %r = stablehlo.real_dynamic_slice %a, %s, %l, %d : (tensor<${A*s+1}xT>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<${A}xT>
  return %r : tensor<${A}xT>
}
// ----- stablehlo.dynamic_reshape: all: A=4:1..9 B=3:1..20
func.func public @main(%a: tensor<${A}x${2*B}xT>) -> tensor<${B}x${2*A}xT> {
  %s = stablehlo.constant dense<[${B}, ${2*A}]> : tensor<2xi64>
  %r = stablehlo.dynamic_reshape %a, %s : (tensor<${A}x${2*B}xT>, tensor<2xi64>) -> tensor<${B}x${2*A}xT>
  return %r : tensor<${B}x${2*A}xT>
}
// ----- stablehlo.dynamic_broadcast_in_dim: all: A=4:1..20 B=6:1..200
func.func public @main(%a: tensor<${B}xT>) -> tensor<${A}x${B}xT> {
  %s = stablehlo.constant dense<[${A}, ${B}]> : tensor<2xi64>
  %r = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<${B}xT>, tensor<2xi64>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.dynamic_iota: numbers: A=4:1..20 B=6:1..99
func.func public @main() -> tensor<${A}x${B}xT> {
  %s = stablehlo.constant dense<[${A}, ${B}]> : tensor<2xi64>
  %r = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- chlo.top_k: ordered: A=3:1..9 k=5:1..9 b=28:0..60
func.func public @main(%a: tensor<${A}x${k+b}xT>) -> (tensor<${A}x${k}xT>, tensor<${A}x${k}xi32>) {
  %r:2 = chlo.top_k(%a, k = ${k}) : tensor<${A}x${k+b}xT> -> (tensor<${A}x${k}xT>, tensor<${A}x${k}xi32>)
  return %r#0, %r#1 : tensor<${A}x${k}xT>, tensor<${A}x${k}xi32>
}
// ----- chlo.constant_like: real: A=3:1..33 B=5:1..99
func.func public @main(%a: tensor<${A}x${B}xT>) -> tensor<${A}x${B}xT> {
  %r = "chlo.constant_like"(%a) {value = ONE : T} : (tensor<${A}x${B}xT>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- chlo.constant: all: A=3:1..33 B=5:1..99
func.func public @main() -> tensor<${A}x${B}xT> {
  %r = "chlo.constant"() {value = dense<ONE> : tensor<${A}x${B}xT>} : () -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.constant: all: A=3:1..33 B=5:1..99
func.func public @main() -> tensor<${A}x${B}xT> {
  %r = stablehlo.constant dense<ONE> : tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.if: all: n=70:1..1000
func.func public @main(%p: tensor<i1>, %a: tensor<${n}xT>, %b: tensor<${n}xT>) -> tensor<${n}xT> {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %a : tensor<${n}xT>
  }, {
    stablehlo.return %b : tensor<${n}xT>
  }) : (tensor<i1>) -> tensor<${n}xT>
  return %r : tensor<${n}xT>
}
// ----- stablehlo.case: all: n=70:1..1000
func.func public @main(%p: tensor<i32>, %a: tensor<${n}xT>, %b: tensor<${n}xT>) -> tensor<${n}xT> {
  %r = "stablehlo.case"(%p) ({
    stablehlo.return %a : tensor<${n}xT>
  }, {
    stablehlo.return %b : tensor<${n}xT>
  }) : (tensor<i32>) -> tensor<${n}xT>
  return %r : tensor<${n}xT>
}
// ----- stablehlo.while: all: n=70:1..1000
func.func public @main(%p: tensor<i1>, %a: tensor<${n}xT>) -> (tensor<i1>, tensor<${n}xT>) {
  %r:2 = stablehlo.while(%q = %p, %x = %a) : tensor<i1>, tensor<${n}xT>
    cond {
      stablehlo.return %q : tensor<i1>
    } do {
      %n = stablehlo.not %q : tensor<i1>
      stablehlo.return %n, %x : tensor<i1>, tensor<${n}xT>
    }
  return %r#0, %r#1 : tensor<i1>, tensor<${n}xT>
}
// ----- stablehlo.map: all: n=70:1..1000 op=add|multiply
func.func public @main(%a: tensor<${n}xT>, %b: tensor<${n}xT>) -> tensor<${n}xT> {
  %r = "stablehlo.map"(%a, %b) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.${op} %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {dimensions = array<i64: 0>} : (tensor<${n}xT>, tensor<${n}xT>) -> tensor<${n}xT>
  return %r : tensor<${n}xT>
}
// ----- stablehlo.optimization_barrier: all: n=70:1..1000
func.func public @main(%a: tensor<${n}xT>) -> tensor<${n}xT> {
  %r = stablehlo.optimization_barrier %a : tensor<${n}xT>
  return %r : tensor<${n}xT>
}
// ----- stablehlo.tuple: all: n=70:1..1000
func.func public @main(%a: tensor<${n}xT>) -> tensor<${n}xT> {
  %t = stablehlo.tuple %a, %a : tuple<tensor<${n}xT>, tensor<${n}xT>>
  %r = stablehlo.get_tuple_element %t[1] : (tuple<tensor<${n}xT>, tensor<${n}xT>>) -> tensor<${n}xT>
  return %r : tensor<${n}xT>
}
// ----- stablehlo.get_tuple_element: all: n=70:1..1000
func.func public @main(%a: tensor<${n}xT>) -> tensor<${n}xT> {
  %t = stablehlo.tuple %a, %a : tuple<tensor<${n}xT>, tensor<${n}xT>>
  %r = stablehlo.get_tuple_element %t[0] : (tuple<tensor<${n}xT>, tensor<${n}xT>>) -> tensor<${n}xT>
  return %r : tensor<${n}xT>
}
// ----- stablehlo.composite: all: n=70:1..1000
func.func private @same(%x: tensor<${n}xT>) -> tensor<${n}xT> {
  return %x : tensor<${n}xT>
}
func.func public @main(%a: tensor<${n}xT>) -> tensor<${n}xT> {
  %r = stablehlo.composite "some.same" %a {decomposition = @same} : (tensor<${n}xT>) -> tensor<${n}xT>
  return %r : tensor<${n}xT>
}
// ----- stablehlo.fft: complex: A=3:1..9 B=8:1..40 op=FFT|IFFT
func.func public @main(%a: tensor<${A}x${B}xT>) -> tensor<${A}x${B}xT> {
  %r = stablehlo.fft %a, type = ${op}, length = [${B}] : (tensor<${A}x${B}xT>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.rng_bit_generator: drawn: n=70:1..300
func.func public @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<${n}xT>) {
  %o, %r = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<${n}xT>)
  return %o, %r : tensor<2xui64>, tensor<${n}xT>
}
// ----- stablehlo.rng: real: n=70:1..300
func.func public @main(%a: tensor<T>, %b: tensor<T>) -> tensor<${n}xT> {
  %s = stablehlo.constant dense<[${n}]> : tensor<1xi64>
  %r = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<T>, tensor<T>, tensor<1xi64>) -> tensor<${n}xT>
  return %r : tensor<${n}xT>
}
// ----- stablehlo.reduce: ordered: A=3:1..9 B=7:1..33 C=9:1..130 op=maximum|minimum
func.func public @main(%a: tensor<${A}x${B}x${C}xT>, %z: tensor<T>) -> tensor<${B}xT> {
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.${op} across dimensions = [0, 2]
    : (tensor<${A}x${B}x${C}xT>, tensor<T>) -> tensor<${B}xT>
  return %r : tensor<${B}xT>
}
// ----- stablehlo.reduce: real: A=3:1..65 B=7:1..65 C=9:1..9 op=add|maximum|minimum
func.func public @main(%a: tensor<${A}x${B}x${C}xT>, %z: tensor<T>) -> tensor<${B}x${C}xT> {
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.${op} across dimensions = [0]
    : (tensor<${A}x${B}x${C}xT>, tensor<T>) -> tensor<${B}x${C}xT>
  return %r : tensor<${B}x${C}xT>
}
// ----- stablehlo.reduce_window: ordered: N=2:1..3 H=4:1..9 W=4:1..9 C=8:1..70 h=2:1..3 s=2:1..3 op=maximum|minimum
func.func public @main(%a: tensor<${N}x${H*s+h-s}x${W*s+h-s}x${C}xT>, %z: tensor<T>) -> tensor<${N}x${H}x${W}x${C}xT> {
  %r = "stablehlo.reduce_window"(%a, %z) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.${op} %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {window_dimensions = array<i64: 1, ${h}, ${h}, 1>, window_strides = array<i64: 1, ${s}, ${s}, 1>}
    : (tensor<${N}x${H*s+h-s}x${W*s+h-s}x${C}xT>, tensor<T>) -> tensor<${N}x${H}x${W}x${C}xT>
  return %r : tensor<${N}x${H}x${W}x${C}xT>
}
// ----- stablehlo.reduce_window: numbers: A=4:1..9 B=9:3..129 d=1:1..2 p=1:0..2
func.func public @main(%a: tensor<${A}x${B+2*d}xT>, %z: tensor<T>) -> tensor<${A}x${B+2*p}xT> {
  %r = "stablehlo.reduce_window"(%a, %z) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.add %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {window_dimensions = array<i64: 1, 3>, window_dilations = array<i64: 1, ${d}>, padding = dense<[[0, 0], [${p}, ${p}]]> : tensor<2x2xi64>}
    : (tensor<${A}x${B+2*d}xT>, tensor<T>) -> tensor<${A}x${B+2*p}xT>
  return %r : tensor<${A}x${B+2*p}xT>
}
// ----- stablehlo.sort: ordered: A=40:1..129 B=3:1..9 op=LT|GT
func.func public @main(%a: tensor<${A}x${B}xT>, %b: tensor<${A}x${B}xi32>) -> (tensor<${A}x${B}xT>, tensor<${A}x${B}xi32>) {
  %r:2 = "stablehlo.sort"(%a, %b) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>, %v: tensor<i32>, %w: tensor<i32>):
    %p = stablehlo.compare ${op}, %x, %y : (tensor<T>, tensor<T>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true}
    : (tensor<${A}x${B}xT>, tensor<${A}x${B}xi32>) -> (tensor<${A}x${B}xT>, tensor<${A}x${B}xi32>)
  return %r#0, %r#1 : tensor<${A}x${B}xT>, tensor<${A}x${B}xi32>
}
// ----- stablehlo.scatter: ordered: A=9:1..64 B=4:1..100 N=3:1..32 op=maximum|minimum
func.func public @main(%a: tensor<${A}x${B}xT>, %i: tensor<${N}x1xi32>, %u: tensor<${N}x${B}xT>) -> tensor<${A}x${B}xT> {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    %s = stablehlo.${op} %x, %y : tensor<T>
    stablehlo.return %s : tensor<T>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
    : (tensor<${A}x${B}xT>, tensor<${N}x1xi32>, tensor<${N}x${B}xT>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.scatter: all: A=9:1..64 B=4:1..40 N=3:1..32
func.func public @main(%a: tensor<${A}x${B}xT>, %i: tensor<${N}x2xi32>, %u: tensor<${N}xT>) -> tensor<${A}x${B}xT> {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
  ^bb0(%x: tensor<T>, %y: tensor<T>):
    stablehlo.return %y : tensor<T>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1],
      index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}
    : (tensor<${A}x${B}xT>, tensor<${N}x2xi32>, tensor<${N}xT>) -> tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- stablehlo.gather: all: A=9:1..64 B=4:1..40 N=3:1..32 M=2:1..9 w=1:1..1
func.func public @main(%a: tensor<${A}x${B}xT>, %i: tensor<${N}x${M}x2xi32>) -> tensor<${N}x${M}xT> {
  %r = "stablehlo.gather"(%a, %i) {slice_sizes = array<i64: 1, 1>, dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
      start_index_map = [0, 1], index_vector_dim = 2>} : (tensor<${A}x${B}xT>, tensor<${N}x${M}x2xi32>) -> tensor<${N}x${M}xT>
  return %r : tensor<${N}x${M}xT>
}
// ----- stablehlo.gather: all: A=9:4..64 B=4:1..40 N=3:1..32 w=2:1..4
func.func public @main(%a: tensor<${A}x${B}xT>, %i: tensor<${N}x1xi32>) -> tensor<${N}x${w}x${B}xT> {
  %r = "stablehlo.gather"(%a, %i) {slice_sizes = array<i64: ${w}, ${B}>, dimension_numbers = #stablehlo.gather<offset_dims = [1, 2],
      start_index_map = [0], index_vector_dim = 1>} : (tensor<${A}x${B}xT>, tensor<${N}x1xi32>) -> tensor<${N}x${w}x${B}xT>
  return %r : tensor<${N}x${w}x${B}xT>
}
// ----- stablehlo.dot: numbers: M=16:1..300 K=32:1..300
func.func public @main(%a: tensor<${M}x${K}xT>, %b: tensor<${K}xT>) -> tensor<${M}xT> {
  %r = stablehlo.dot %a, %b : (tensor<${M}x${K}xT>, tensor<${K}xT>) -> tensor<${M}xT>
  return %r : tensor<${M}xT>
}
// ----- stablehlo.dot_general: numbers: M=16:1..129 K=32:1..200 N=8:1..129
func.func public @main(%a: tensor<${M}x${K}xT>, %b: tensor<${N}x${K}xT>) -> tensor<${M}x${N}xT> {
  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : (tensor<${M}x${K}xT>, tensor<${N}x${K}xT>) -> tensor<${M}x${N}xT>
  return %r : tensor<${M}x${N}xT>
}
// ----- stablehlo.dot_general: numbers: M=16:1..129 K=32:1..200 N=8:1..129 B=2:1..3
func.func public @main(%a: tensor<${K}x${M}xT>, %b: tensor<${K}x${B}x${N}xT>) -> tensor<${M}x${B}x${N}xT> {
  %r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
    : (tensor<${K}x${M}xT>, tensor<${K}x${B}x${N}xT>) -> tensor<${M}x${B}x${N}xT>
  return %r : tensor<${M}x${B}x${N}xT>
}
// ----- stablehlo.convolution: numbers: N=2:1..2 H=4:1..7 W=5:1..7 C=4:1..40 O=8:1..40 h=3:1..3 s=2:1..3 d=1:1..2
func.func public @main(%a: tensor<${N}x${C}x${H*s-s+h*d-d+1}x${W*s-s+h*d-d+1}xT>, %b: tensor<${O}x${C}x${h}x${h}xT>)
    -> tensor<${N}x${O}x${H}x${W}xT> {
  %r = "stablehlo.convolution"(%a, %b) {dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>,
      window_strides = array<i64: ${s}, ${s}>, rhs_dilation = array<i64: ${d}, ${d}>, feature_group_count = 1 : i64,
      batch_group_count = 1 : i64}
    : (tensor<${N}x${C}x${H*s-s+h*d-d+1}x${W*s-s+h*d-d+1}xT>, tensor<${O}x${C}x${h}x${h}xT>) -> tensor<${N}x${O}x${H}x${W}xT>
  return %r : tensor<${N}x${O}x${H}x${W}xT>
}
// ----- stablehlo.convolution: numbers: N=2:1..2 H=4:1..9 W=5:1..9 C=4:1..9 m=2:1..3 G=3:1..16
func.func public @main(%a: tensor<${N}x${H}x${W}x${C*G}xT>, %b: tensor<3x3x${C}x${m*G}xT>) -> tensor<${N}x${H}x${W}x${m*G}xT> {
  %r = "stablehlo.convolution"(%a, %b) {dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
      padding = dense<1> : tensor<2x2xi64>, feature_group_count = ${G} : i64, batch_group_count = 1 : i64}
    : (tensor<${N}x${H}x${W}x${C*G}xT>, tensor<3x3x${C}x${m*G}xT>) -> tensor<${N}x${H}x${W}x${m*G}xT>
  return %r : tensor<${N}x${H}x${W}x${m*G}xT>
}
// ----- stablehlo.batch_norm_inference: floats: N=2:1..4 H=3:1..12 W=2:1..9 C=30:1..130
func.func public @main(%a: tensor<${N}x${H}x${W}x${C}xT>, %b: tensor<${C}xT>, %c: tensor<${C}xT>, %d: tensor<${C}xT>, %e: tensor<${C}xT>)
    -> tensor<${N}x${H}x${W}x${C}xT> {
  %r = "stablehlo.batch_norm_inference"(%a, %b, %c, %d, %e) {epsilon = 1.0e-6 : f32, feature_index = 3 : i64}
    : (tensor<${N}x${H}x${W}x${C}xT>, tensor<${C}xT>, tensor<${C}xT>, tensor<${C}xT>, tensor<${C}xT>) -> tensor<${N}x${H}x${W}x${C}xT>
  return %r : tensor<${N}x${H}x${W}x${C}xT>
}
// ----- stablehlo.batch_norm_inference: floats: N=2:1..4 H=3:1..12 W=2:1..9 C=30:1..70
func.func public @main(%a: tensor<${N}x${C}x${H}x${W}xT>, %b: tensor<${C}xT>, %c: tensor<${C}xT>, %d: tensor<${C}xT>, %e: tensor<${C}xT>)
    -> tensor<${N}x${C}x${H}x${W}xT> {
  %r = "stablehlo.batch_norm_inference"(%a, %b, %c, %d, %e) {epsilon = 1.0e-6 : f32, feature_index = 1 : i64}
    : (tensor<${N}x${C}x${H}x${W}xT>, tensor<${C}xT>, tensor<${C}xT>, tensor<${C}xT>, tensor<${C}xT>) -> tensor<${N}x${C}x${H}x${W}xT>
  return %r : tensor<${N}x${C}x${H}x${W}xT>
}
// ----- conv_bias_relu: floats: N=1:1..2 H=8:1..12 W=8:1..12 C=16:1..70 O=32:1..70 h=3:1..3
func.func public @main(%x: tensor<${N}x${H+h-1}x${W+h-1}x${C}xT>, %w: tensor<${h}x${h}x${C}x${O}xT>, %b: tensor<${O}xT>)
    -> tensor<${N}x${H}x${W}x${O}xT> {
  %c = "stablehlo.convolution"(%x, %w) {dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
      feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<${N}x${H+h-1}x${W+h-1}x${C}xT>, tensor<${h}x${h}x${C}x${O}xT>)
      -> tensor<${N}x${H}x${W}x${O}xT>
  %d = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<${O}xT>) -> tensor<${N}x${H}x${W}x${O}xT>
  %s = stablehlo.add %c, %d : tensor<${N}x${H}x${W}x${O}xT>
  %z = stablehlo.constant dense<0.0> : tensor<${N}x${H}x${W}x${O}xT>
  %r = stablehlo.maximum %s, %z : tensor<${N}x${H}x${W}x${O}xT>
  return %r : tensor<${N}x${H}x${W}x${O}xT>
}
// ----- gemm_bias_relu: floats: M=64:1..200 K=64:1..200 N=64:1..200
func.func public @main(%x: tensor<${M}x${K}xT>, %w: tensor<${K}x${N}xT>, %b: tensor<${N}xT>)
    -> tensor<${M}x${N}xT> {
  %c = stablehlo.dot %x, %w : (tensor<${M}x${K}xT>, tensor<${K}x${N}xT>) -> tensor<${M}x${N}xT>
  %d = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<${N}xT>) -> tensor<${M}x${N}xT>
  %s = stablehlo.add %c, %d : tensor<${M}x${N}xT>
  %z = stablehlo.constant dense<0.0> : tensor<${M}x${N}xT>
  %r = stablehlo.maximum %s, %z : tensor<${M}x${N}xT>
  return %r : tensor<${M}x${N}xT>
}
// ----- gemm_bias_gelu: floats: M=64:1..200 K=64:1..200 N=64:1..200
func.func public @main(%x: tensor<${M}x${K}xT>, %w: tensor<${K}x${N}xT>, %b: tensor<${N}xT>)
    -> tensor<${M}x${N}xT> {
  %c = stablehlo.dot %x, %w : (tensor<${M}x${K}xT>, tensor<${K}x${N}xT>) -> tensor<${M}x${N}xT>
  %d = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<${N}xT>) -> tensor<${M}x${N}xT>
  %s = stablehlo.add %c, %d : tensor<${M}x${N}xT>
  %c0 = stablehlo.constant dense<0.044715> : tensor<${M}x${N}xT>
  %c1 = stablehlo.constant dense<0.797884583> : tensor<${M}x${N}xT>
  %c2 = stablehlo.constant dense<1.0> : tensor<${M}x${N}xT>
  %c3 = stablehlo.constant dense<0.5> : tensor<${M}x${N}xT>
  %q = stablehlo.multiply %s, %s : tensor<${M}x${N}xT>
  %t = stablehlo.multiply %q, %s : tensor<${M}x${N}xT>
  %u = stablehlo.multiply %t, %c0 : tensor<${M}x${N}xT>
  %v = stablehlo.add %s, %u : tensor<${M}x${N}xT>
  %e = stablehlo.multiply %v, %c1 : tensor<${M}x${N}xT>
  %f = stablehlo.tanh %e : tensor<${M}x${N}xT>
  %g = stablehlo.add %f, %c2 : tensor<${M}x${N}xT>
  %h = stablehlo.multiply %g, %c3 : tensor<${M}x${N}xT>
  %r = stablehlo.multiply %s, %h : tensor<${M}x${N}xT>
  return %r : tensor<${M}x${N}xT>
}
// ----- softmax: floats: A=16:1..65 B=64:1..300
func.func public @main(%x: tensor<${A}x${B}xT>)
    -> tensor<${A}x${B}xT> {
  %m0 = stablehlo.constant dense<-448.0> : tensor<T>
  %m1 = stablehlo.reduce(%x init: %m0) applies stablehlo.maximum across dimensions = [1] : (tensor<${A}x${B}xT>, tensor<T>) -> tensor<${A}xT>
  %b = stablehlo.broadcast_in_dim %m1, dims = [0] : (tensor<${A}xT>) -> tensor<${A}x${B}xT>
  %d = stablehlo.subtract %x, %b : tensor<${A}x${B}xT>
  %e = stablehlo.exponential %d : tensor<${A}x${B}xT>
  %s0 = stablehlo.constant dense<0.0> : tensor<T>
  %s1 = stablehlo.reduce(%e init: %s0) applies stablehlo.add across dimensions = [1] : (tensor<${A}x${B}xT>, tensor<T>) -> tensor<${A}xT>
  %t = stablehlo.broadcast_in_dim %s1, dims = [0] : (tensor<${A}xT>) -> tensor<${A}x${B}xT>
  %r = stablehlo.divide %e, %t : tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- layer_norm: floats: A=16:1..65 B=64:2..300
func.func public @main(%x: tensor<${A}x${B}xT>, %g: tensor<${B}xT>, %o: tensor<${B}xT>)
    -> tensor<${A}x${B}xT> {
  %a0 = stablehlo.constant dense<0.0> : tensor<T>
  %a1 = stablehlo.reduce(%x init: %a0) applies stablehlo.add across dimensions = [1] : (tensor<${A}x${B}xT>, tensor<T>) -> tensor<${A}xT>
  %ab = stablehlo.broadcast_in_dim %a1, dims = [0] : (tensor<${A}xT>) -> tensor<${A}x${B}xT>
  %ac = stablehlo.constant dense<${B}.0> : tensor<${A}x${B}xT>
  %am = stablehlo.divide %ab, %ac : tensor<${A}x${B}xT>
  %d = stablehlo.subtract %x, %am : tensor<${A}x${B}xT>
  %q = stablehlo.multiply %d, %d : tensor<${A}x${B}xT>
  %v0 = stablehlo.constant dense<0.0> : tensor<T>
  %v1 = stablehlo.reduce(%q init: %v0) applies stablehlo.add across dimensions = [1] : (tensor<${A}x${B}xT>, tensor<T>) -> tensor<${A}xT>
  %vb = stablehlo.broadcast_in_dim %v1, dims = [0] : (tensor<${A}xT>) -> tensor<${A}x${B}xT>
  %vc = stablehlo.constant dense<${B}.0> : tensor<${A}x${B}xT>
  %vm = stablehlo.divide %vb, %vc : tensor<${A}x${B}xT>
  %p = stablehlo.constant dense<1.0e-3> : tensor<${A}x${B}xT>
  %w = stablehlo.add %vm, %p : tensor<${A}x${B}xT>
  %i = stablehlo.rsqrt %w : tensor<${A}x${B}xT>
  %n = stablehlo.multiply %d, %i : tensor<${A}x${B}xT>
  %g1 = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<${B}xT>) -> tensor<${A}x${B}xT>
  %h = stablehlo.multiply %n, %g1 : tensor<${A}x${B}xT>
  %o1 = stablehlo.broadcast_in_dim %o, dims = [1] : (tensor<${B}xT>) -> tensor<${A}x${B}xT>
  %r = stablehlo.add %h, %o1 : tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- rms_norm: floats: A=16:1..65 B=64:2..300
func.func public @main(%x: tensor<${A}x${B}xT>, %g: tensor<${B}xT>)
    -> tensor<${A}x${B}xT> {
  %q = stablehlo.multiply %x, %x : tensor<${A}x${B}xT>
  %v0 = stablehlo.constant dense<0.0> : tensor<T>
  %v1 = stablehlo.reduce(%q init: %v0) applies stablehlo.add across dimensions = [1] : (tensor<${A}x${B}xT>, tensor<T>) -> tensor<${A}xT>
  %vb = stablehlo.broadcast_in_dim %v1, dims = [0] : (tensor<${A}xT>) -> tensor<${A}x${B}xT>
  %vc = stablehlo.constant dense<${B}.0> : tensor<${A}x${B}xT>
  %vm = stablehlo.divide %vb, %vc : tensor<${A}x${B}xT>
  %p = stablehlo.constant dense<1.0e-3> : tensor<${A}x${B}xT>
  %w = stablehlo.add %vm, %p : tensor<${A}x${B}xT>
  %i = stablehlo.rsqrt %w : tensor<${A}x${B}xT>
  %n = stablehlo.multiply %x, %i : tensor<${A}x${B}xT>
  %g1 = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<${B}xT>) -> tensor<${A}x${B}xT>
  %r = stablehlo.multiply %n, %g1 : tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- silu: floats: A=16:1..65 B=64:1..300
func.func public @main(%x: tensor<${A}x${B}xT>)
    -> tensor<${A}x${B}xT> {
  %l = stablehlo.logistic %x : tensor<${A}x${B}xT>
  %r = stablehlo.multiply %x, %l : tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
// ----- relu: floats: A=16:1..65 B=64:1..300
func.func public @main(%x: tensor<${A}x${B}xT>)
    -> tensor<${A}x${B}xT> {
  %z = stablehlo.constant dense<0.0> : tensor<${A}x${B}xT>
  %r = stablehlo.maximum %x, %z : tensor<${A}x${B}xT>
  return %r : tensor<${A}x${B}xT>
}
