/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errWaitPanic stands for a panic, whose text may hold anything.
var errWaitPanic = errors.New("the program failed at this; please report it")

// untilStop waits for objects as Helm does, but no longer than until the action is stopped. Helm's waits know a timeout only: one that is
// left alone goes on in vain until then, or until the requests that it makes have failed a number of times, for they end with the action.
func (k *kubeClient) untilStop(resources kube.ResourceList, timeout time.Duration, wait func(kube.ResourceList, time.Duration) error) error {
	timeout = k.remaining(timeout)
	if len(resources) == 0 || k.stop == nil && k.recorded == nil {
		return wait(resources, timeout)
	}
	var stop <-chan struct{}
	if k.stop != nil {
		stop = k.stop.Done()
	}
	if k.stop != nil && k.stop.Err() != nil {
		return k.stopped()
	}
	ended := make(chan error, 1)
	// Copies: to wait overwrites them, and Helm goes on with the others.
	waited := copyInfos(resources)
	go func() {
		defer func() {
			if recover() != nil {
				ended <- errWaitPanic
			}
		}()
		ended <- wait(waited, timeout)
	}()
	look := time.NewTicker(recordInterval)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-stop:
			return k.stopped()
		case <-look.C:
			if err := k.checkRecorded(); err != nil {
				return err
			}
		}
	}
}

// recordInterval is how often it is looked, while an action waits, whether its record is still there.
const recordInterval = 5 * time.Second

// checkRecorded returns an error if the record of the action is gone: somebody has uninstalled the release meanwhile, and nobody wants
// any more what is waited for.
func (k *kubeClient) checkRecorded() error {
	if k.recorded == nil {
		return nil
	}
	return k.recorded()
}

// checkRecordExists returns an error if the newest record that the action has saved is gone.
func (s *session) checkRecordExists(name string) error {
	newest := s.storage.newest()
	if newest == nil || s.records == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordInterval)
	defer cancel()
	_, err := s.records.metadata.Get(ctx, recordName(name, newest.Version), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errorOfKind(ErrStale, "the record of revision %d is gone: the release was uninstalled by somebody else meanwhile", newest.Version)
	}
	// The end of the wait will tell of other errors.
	return nil
}

func (k *kubeClient) stopped() error {
	return fmt.Errorf("it was not waited for any longer: %w", context.Cause(k.stop))
}
