// RUN: %opt -p inline %s | filecheck %s

// A function that is marked because it only converts goes into all of its callers.

func.func @f(%p0: tensor<8x8xbf16>, %r0: tensor<8x8xf32>, %i: index, %j: index) -> f32 attributes {xla.entry} {
  %0 = xla.pure_call @wide(%p0, %i, %j) : (tensor<8x8xbf16>, index, index) -> f32
  %1 = xla.pure_call @wide(%p0, %j, %i) : (tensor<8x8xbf16>, index, index) -> f32
  %2 = arith.addf %0, %1 : f32
  func.return %2 : f32
}
func.func private @wide(%p0: tensor<8x8xbf16>, %i: index, %j: index) -> f32 attributes {xla.made_again} {
  %0 = tensor.extract %p0[%i, %j] : tensor<8x8xbf16>
  %1 = arith.extf %0 : bf16 to f32
  func.return %1 : f32
}

// CHECK:      func.func @f(
// CHECK-NEXT:   [[A:%[0-9]+]] = tensor.extract %p0[%i, %j]
// CHECK-NEXT:   [[B:%[0-9]+]] = arith.extf [[A]]
// CHECK-NEXT:   [[C:%[0-9]+]] = tensor.extract %p0[%j, %i]
// CHECK-NEXT:   [[D:%[0-9]+]] = arith.extf [[C]]
// CHECK-NEXT:   arith.addf [[B]], [[D]]
// CHECK-NOT:  @wide
