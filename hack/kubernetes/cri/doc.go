// Package cri asks a container runtime to do what a kubelet would ask of it, over the Container
// Runtime Interface.
package cri
