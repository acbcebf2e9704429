// Package cluster runs Kubernetes itself on a node of package node: etcd, the API server, the controller
// manager, the scheduler and a kubelet, and Multus as its project publishes it. hack/kubernetes-programs
// makes the programs.
package cluster
