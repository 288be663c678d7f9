//go:build !cgo

package holdfast

// Without cgo the rest of the package is left out, and a program would get "undefined:
// holdfast.Connect", which does not say why. The compiler shows this name instead. Go leaves cgo
// out with CGO_ENABLED=0, without a C compiler, and when it builds for another kind of processor.
var _ = holdfast_needs_cgo__set_CGO_ENABLED_to_1_and_CC_to_a_C_compiler
