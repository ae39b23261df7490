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

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// alone and beside are the namespaces of the two fleets.
const alone, beside = "alone", "beside"

// times are how long a fleet's Clusters that are well took.
type times struct{ install, upgrade time.Duration }

// hanging compares a fleet alone with the same beside Clusters that hang. A target that is missed is an error.
func hanging(ctx context.Context, b *bench) error {
	if err := b.fleet(ctx, alone, map[string]int{"well": b.healthy}); err != nil {
		return err
	}
	if err := b.fleet(ctx, beside, map[string]int{"well": b.healthy, "hangs": b.hanging}); err != nil {
		return err
	}
	relays, err := b.reroute(ctx)
	if err != nil {
		return err
	}
	got := map[string][]times{}
	for round := range b.rounds {
		order := []string{alone, beside}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, namespace := range order {
			took, err := b.measure(ctx, namespace, fmt.Sprintf("round-%d", round), relays)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round, namespace, err)
			}
			b.say("round %d, %s: installed in %.2f s, upgraded in %.2f s", round, namespace, took.install.Seconds(), took.upgrade.Seconds())
			got[namespace] = append(got[namespace], took)
		}
	}
	for _, relay := range relays {
		err = errors.Join(err, relay.stop())
	}
	return errors.Join(err, b.compare("install", got, func(t times) time.Duration { return t.install }),
		b.compare("upgrade", got, func(t times) time.Duration { return t.upgrade }))
}

// compare prints the medians of a phase and their ratio.
func (b *bench) compare(phase string, got map[string][]times, of func(times) time.Duration) error {
	medians := map[string]time.Duration{}
	for namespace, all := range got {
		var durations []time.Duration
		for _, t := range all {
			durations = append(durations, of(t))
		}
		slices.Sort(durations)
		medians[namespace] = durations[len(durations)/2]
	}
	ratio := medians[beside].Seconds() / medians[alone].Seconds()
	fmt.Printf("%s of %d Clusters: %.2f s alone, %.2f s beside %d that hang: %.2f times, target %.2f\n",
		phase, b.healthy, medians[alone].Seconds(), medians[beside].Seconds(), b.hanging, ratio, b.maxRatio)
	if ratio > b.maxRatio {
		return fmt.Errorf("%s takes %.2f times as long, target %.2f", phase, ratio, b.maxRatio)
	}
	return nil
}

// reroute has the kubeconfigs of the Clusters that are to hang lead through relays.
func (b *bench) reroute(ctx context.Context) ([]*relay, error) {
	relays := make([]*relay, b.hosts)
	for i := range relays {
		server := b.env.Management.Provider.Server(client.ObjectKey{Namespace: beside, Name: fmt.Sprintf("host-%d", i)})
		var err error
		if relays[i], err = newRelay(fmt.Sprintf("127.0.0.1:%d", server.Port())); err != nil {
			return nil, err
		}
	}
	for i := range b.hanging {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: beside, Name: fmt.Sprintf("hangs-%d-kubeconfig", i)}
		if err := b.env.Client.Get(ctx, key, secret); err != nil {
			return nil, err
		}
		config, err := clientcmd.Load(secret.Data["value"])
		if err != nil {
			return nil, err
		}
		for _, cluster := range config.Clusters {
			cluster.Server = relays[i%b.hosts].address()
		}
		if secret.Data["value"], err = clientcmd.Write(*config); err != nil {
			return nil, err
		}
		if err := b.env.Client.Update(ctx, secret); err != nil {
			return nil, err
		}
	}
	return relays, nil
}

// measure has a manager that is new install a HelmOp in a fleet, then upgrade it. The others hang from the beginning; they
// are well in between, long enough to get the release, too.
func (b *bench) measure(ctx context.Context, namespace, name string, relays []*relay) (times, error) {
	took, all := times{}, b.healthy
	if namespace == beside {
		all += b.hanging
	}
	freeze := func(frozen bool) {
		for _, relay := range relays {
			relay.freeze(frozen)
		}
	}
	freeze(true)
	thaw := func() { freeze(false) }
	defer func() { thaw() }()
	manager, err := b.env.StartManager(ctx, "--namespace="+namespace)
	if err != nil {
		return took, err
	}
	defer func() { _ = manager.Stop(context.WithoutCancel(ctx)) }()
	helmOp := b.helmOp(namespace, name)
	begun := time.Now()
	if err := b.env.Client.Create(ctx, helmOp); err != nil {
		return took, err
	}
	if err := b.waitReady(ctx, helmOp, b.healthy, 1); err != nil {
		return took, err
	}
	took.install = time.Since(begun)
	freeze(false)
	if err := b.waitReady(ctx, helmOp, all, 1); err != nil {
		return took, err
	}
	freeze(true)
	begun = time.Now()
	if err := b.change(ctx, helmOp, "two"); err != nil {
		return took, err
	}
	if err := b.waitReady(ctx, helmOp, b.healthy, 2); err != nil {
		return took, err
	}
	took.upgrade = time.Since(begun)
	freeze(false)
	thaw = func() {}
	return took, b.end(ctx, helmOp)
}
