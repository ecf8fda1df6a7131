// SPDX-License-Identifier: Apache-2.0

// A scheduler extender for parts of GPUs, to compare with: pods ask by the extended resource aliyun.com/gpu-mem, filter keeps
// the nodes that have a GPU with so much left, bind chooses the GPU, writes it into the pod and binds it. It does what
// gpushare-scheduler-extender does, and is written anew: that one's module is not to be had from the module proxy.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	extender "k8s.io/kube-scheduler/extender/v1"
)

type server struct {
	client kubernetes.Interface
	pods   listers.PodLister
	ledger *ledger
}

func (s *server) filter(args extender.ExtenderArgs) extender.ExtenderFilterResult {
	wanted := demand(args.Pod)
	fits, failed := []string{}, extender.FailedNodesMap{}
	for _, name := range *args.NodeNames {
		if s.ledger.fits(name, wanted) {
			fits = append(fits, name)
		} else {
			failed[name] = "no GPU has so much memory left"
		}
	}
	return extender.ExtenderFilterResult{NodeNames: &fits, FailedNodes: failed}
}

func (s *server) bind(args extender.ExtenderBindingArgs) extender.ExtenderBindingResult {
	if err := s.tryBind(args); err != nil {
		return extender.ExtenderBindingResult{Error: err.Error()}
	}
	return extender.ExtenderBindingResult{}
}

// tryBind takes memory of a GPU before anything is written, and gives it back when that fails.
func (s *server) tryBind(args extender.ExtenderBindingArgs) error {
	pod, err := s.pods.Pods(args.PodNamespace).Get(args.PodName)
	if err != nil {
		return err
	}
	if pod.UID != args.PodUID {
		return fmt.Errorf("pod %s/%s is another one now", args.PodNamespace, args.PodName)
	}
	index, err := s.ledger.take(args.Node, pod.UID, demand(pod))
	if err != nil {
		return err
	}
	if err := s.write(pod, args.Node, index); err != nil {
		s.ledger.release(pod.UID)
		return err
	}
	return nil
}

// The pod is bound also where the scheduler waits no longer.
func (s *server) write(pod *core.Pod, node string, index int) error {
	pods := s.client.CoreV1().Pods(pod.Namespace)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, indexAnnotation, index)
	if _, err := pods.Patch(context.Background(), pod.Name, types.StrategicMergePatchType, []byte(patch), meta.PatchOptions{}); err != nil {
		return err
	}
	binding := &core.Binding{
		ObjectMeta: meta.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
		Target:     core.ObjectReference{Kind: "Node", Name: node},
	}
	return pods.Bind(context.Background(), binding, meta.CreateOptions{})
}

// serve answers a verb of the scheduler: JSON in, JSON out.
func serve[In, Out any](answer func(In) Out) http.HandlerFunc {
	return func(writer http.ResponseWriter, request *http.Request) {
		var args In
		if err := json.NewDecoder(request.Body).Decode(&args); err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		writer.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(writer).Encode(answer(args)); err != nil {
			log.Print(err)
		}
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	address := flag.String("address", "127.0.0.1:32766", "where to listen")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.QPS = -1 // the scheduler's own clients have no limit in this comparison either
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(client, 0)
	s := &server{client: client, pods: factory.Core().V1().Pods().Lister(), ledger: newLedger()}
	nodes, pods := factory.Core().V1().Nodes().Informer(), factory.Core().V1().Pods().Informer()
	follow(nodes, s.ledger.setNode, s.ledger.removeNode)
	follow(pods, s.ledger.setPod, func(pod *core.Pod) { s.ledger.release(pod.UID) })
	factory.Start(context.Background().Done())
	cache.WaitForCacheSync(context.Background().Done(), nodes.HasSynced, pods.HasSynced)
	http.Handle("/filter", serve(s.filter))
	http.Handle("/bind", serve(s.bind))
	log.Fatal(http.ListenAndServe(*address, nil))
}

// follow tells of each object that is there or has changed, and of each that has gone.
func follow[T any](informer cache.SharedIndexInformer, set, remove func(T)) {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { set(object.(T)) },
		UpdateFunc: func(_, object any) { set(object.(T)) },
		DeleteFunc: func(object any) {
			if last, missed := object.(cache.DeletedFinalStateUnknown); missed {
				object = last.Obj
			}
			remove(object.(T))
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}
