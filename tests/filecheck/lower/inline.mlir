// RUN: %opt -p inline %s | filecheck %s

// A function called once moves into its caller; one called twice stays; one that only moves an index goes into both.

func.func @f(%p0: tensor<8x8xf32>, %r0: tensor<8x8xf32>, %i: index, %j: index) -> f32 attributes {xla.entry} {
  %0 = xla.pure_call @add(%p0, %i, %j) : (tensor<8x8xf32>, index, index) -> f32
  func.return %0 : f32
}
func.func private @add(%p0: tensor<8x8xf32>, %i: index, %j: index) -> f32 {
  %0 = xla.pure_call @transpose(%p0, %i, %j) : (tensor<8x8xf32>, index, index) -> f32
  %1 = xla.pure_call @transpose(%p0, %j, %j) : (tensor<8x8xf32>, index, index) -> f32
  %2 = arith.addf %0, %1 : f32
  func.return %2 : f32
}
func.func private @transpose(%p0: tensor<8x8xf32>, %i: index, %j: index) -> f32 attributes {xla.no_compute} {
  %0 = xla.pure_call @log(%p0, %j, %i) : (tensor<8x8xf32>, index, index) -> f32
  func.return %0 : f32
}
func.func private @log(%p0: tensor<8x8xf32>, %i: index, %j: index) -> f32 {
  %0 = tensor.extract %p0[%i, %j] : tensor<8x8xf32>
  %1 = math.log %0 : f32
  func.return %1 : f32
}

// CHECK:      func.func @f(%p0: tensor<8x8xf32>, %r0: tensor<8x8xf32>, %i: index, %j: index)
// CHECK-NEXT:   [[A:%[0-9]+]] = xla.pure_call @log(%p0, %j, %i)
// CHECK-NEXT:   [[B:%[0-9]+]] = xla.pure_call @log(%p0, %j, %j)
// CHECK-NEXT:   [[C:%[0-9]+]] = arith.addf [[A]], [[B]] : f32
// CHECK-NEXT:   func.return [[C]]
// CHECK-NOT:  @add
// CHECK-NOT:  @transpose
// CHECK:      func.func private @log
