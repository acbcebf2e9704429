// Package kubernetes makes the manifests that bring the plugins to the nodes of a cluster, from typed
// Kubernetes objects: a DaemonSet of our own, and a patch for the one of Multus. It is the only
// package that knows Kubernetes' API.
package kubernetes
