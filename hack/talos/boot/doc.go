// Package boot starts a machine with Talos's own init and an extension as the imager packs it, and
// turns what the machine finds inside into test results.
//
// The kernel is Debian's, because Talos's is not to be had as a package. So this proves layout,
// labels, layer stacking and behaviour, but not which drivers a Talos kernel has.
package boot
