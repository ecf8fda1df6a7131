// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"sync"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	memoryResource  = "aliyun.com/gpu-mem"
	countResource   = "aliyun.com/gpu-count"
	indexAnnotation = "ALIYUN_COM_GPU_MEM_IDX"
)

// share is what a pod has of one GPU.
type share struct {
	node   string
	index  int
	amount int64
}

// node: size is that of each GPU, used what pods have of each.
type node struct {
	size int64
	used []int64
}

// ledger knows what pods have of the GPUs of each node. All amounts are GiB.
type ledger struct {
	mutex  sync.Mutex
	nodes  map[string]*node
	shares map[types.UID]share
}

func newLedger() *ledger {
	return &ledger{nodes: map[string]*node{}, shares: map[types.UID]share{}}
}

// demand is what the containers of a pod ask for in all.
func demand(pod *core.Pod) int64 {
	var sum int64
	for _, container := range pod.Spec.Containers {
		amount := container.Resources.Limits[memoryResource]
		sum += amount.Value()
	}
	return sum
}

func (l *ledger) setNode(found *core.Node) {
	memory, count := found.Status.Capacity[memoryResource], found.Status.Capacity[countResource]
	if count.Value() == 0 {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.nodes[found.Name] != nil {
		return
	}
	l.nodes[found.Name] = &node{size: memory.Value() / count.Value(), used: make([]int64, count.Value())}
	for _, one := range l.shares { // pods may be told of before their node
		if one.node == found.Name {
			l.count(one, 1)
		}
	}
}

func (l *ledger) removeNode(gone *core.Node) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.nodes, gone.Name)
}

// setPod counts a pod that is bound, as of somebody else or of an earlier life of this program.
func (l *ledger) setPod(pod *core.Pod) {
	if pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed {
		l.release(pod.UID)
		return
	}
	index, err := strconv.Atoi(pod.Annotations[indexAnnotation])
	if err != nil || pod.Spec.NodeName == "" {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if _, known := l.shares[pod.UID]; known {
		return
	}
	l.add(pod.UID, share{pod.Spec.NodeName, index, demand(pod)})
}

func (l *ledger) release(pod types.UID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.count(l.shares[pod], -1)
	delete(l.shares, pod)
}

func (l *ledger) fits(name string, wanted int64) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.choose(name, wanted) >= 0
}

// take gives a pod part of the fullest GPU that has so much left, and returns the GPU's index.
func (l *ledger) take(name string, pod types.UID, wanted int64) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	index := l.choose(name, wanted)
	if index < 0 {
		return 0, fmt.Errorf("no GPU of %s has %d GiB left", name, wanted)
	}
	l.add(pod, share{name, index, wanted})
	return index, nil
}

func (l *ledger) add(pod types.UID, one share) {
	l.shares[pod] = one
	l.count(one, 1)
}

// count adds a share to what is used of its GPU, or takes it off.
func (l *ledger) count(one share, sign int64) {
	if on := l.nodes[one.node]; on != nil && one.index >= 0 && one.index < len(on.used) {
		on.used[one.index] += sign * one.amount
	}
}

func (l *ledger) choose(name string, wanted int64) int {
	on, best := l.nodes[name], -1
	if on == nil {
		return best
	}
	for index, used := range on.used {
		if on.size-used >= wanted && (best < 0 || used > on.used[best]) {
			best = index
		}
	}
	return best
}
