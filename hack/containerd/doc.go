// Package containerd shows what containerd 2.x makes of the configuration part in our read-only
// extension. It is a module of its own so that containerd's dependencies stay out of ours.
package containerd
