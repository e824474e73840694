package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func widgetName(i int) string { return fmt.Sprintf("w%02d", i) }

func (d *driver) createAndWait(ctx context.Context, from, to int) error {
	for i := from; i < to; i++ {
		w := &Widget{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.ns, Name: widgetName(i)},
			Spec:       WidgetSpec{Message: "hello " + widgetName(i)},
		}
		if err := d.client.Create(ctx, w); err != nil {
			return err
		}
		if w.Spec.Size != 1 {
			return fmt.Errorf("default not applied: size is %d in the create response", w.Spec.Size)
		}
	}
	return d.waitReconciled(ctx, to)
}

// waitReconciled waits until each of the first n widgets and its ConfigMap agree.
func (d *driver) waitReconciled(ctx context.Context, n int) error {
	missing := ""
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		var list WidgetList
		if err := d.client.List(ctx, &list, client.InNamespace(d.ns)); err != nil {
			return false, err
		}
		if len(list.Items) != n {
			return false, fmt.Errorf("%d widgets, want %d", len(list.Items), n)
		}
		for i := range list.Items {
			w := &list.Items[i]
			missing = w.Name
			if w.Status.ObservedGeneration != w.Generation || w.Status.Phase != "Ready" {
				return false, nil
			}
			cm, err := d.typed.CoreV1().ConfigMaps(d.ns).Get(ctx, "widget-"+w.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			if cm.Data["message"] != w.Spec.Message {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", missing, err)
	}
	return nil
}

func (d *driver) checkOwners(ctx context.Context) error {
	for i := range d.widgets {
		var w Widget
		if err := d.client.Get(ctx, client.ObjectKey{Namespace: d.ns, Name: widgetName(i)}, &w); err != nil {
			return err
		}
		cm, err := d.typed.CoreV1().ConfigMaps(d.ns).Get(ctx, "widget-"+w.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if owner := metav1.GetControllerOf(cm); owner == nil || owner.UID != w.UID || owner.Kind != "Widget" {
			return fmt.Errorf("%s is controlled by %+v, want widget %s", cm.Name, owner, w.UID)
		}
		if len(w.Finalizers) != 1 || w.Finalizers[0] != finalizer {
			return fmt.Errorf("%s has finalizers %v", w.Name, w.Finalizers)
		}
	}
	return nil
}

func (d *driver) updateAndWait(ctx context.Context) error {
	for i := range d.widgets {
		key := client.ObjectKey{Namespace: d.ns, Name: widgetName(i)}
		var before, after int64
		err := conflicts(func() error {
			var w Widget
			if err := d.client.Get(ctx, key, &w); err != nil {
				return err
			}
			before = w.Generation
			w.Spec.Message = "changed " + w.Name
			err := d.client.Update(ctx, &w)
			after = w.Generation
			return err
		})
		if err != nil {
			return err
		}
		if after != before+1 {
			return fmt.Errorf("generation went from %d to %d on a spec change", before, after)
		}
	}
	return d.waitReconciled(ctx, d.widgets)
}

// deleteChildAndWait proves that the owner's queue hears about its children.
func (d *driver) deleteChildAndWait(ctx context.Context) error {
	configMaps, name := d.typed.CoreV1().ConfigMaps(d.ns), "widget-"+widgetName(0)
	old, err := configMaps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := configMaps.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.UID))}); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) (bool, error) {
		cm, err := configMaps.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && cm.UID != old.UID, err
	})
}

func (d *driver) refuseInvalid(ctx context.Context) error {
	w := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: d.ns, Name: "too-large"},
		Spec: WidgetSpec{Message: "x", Size: 101}}
	err := d.client.Create(ctx, w)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "size must not exceed 100") {
		return fmt.Errorf("want Invalid with the rule's message, got: %v", err)
	}
	return nil
}

func (d *driver) checkLease(ctx context.Context) error {
	lease, err := d.typed.CoordinationV1().Leases(d.ns).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil {
		return errors.New("lease has no holder or renew time")
	}
	return nil
}

func (d *driver) deleteAndWait(ctx context.Context) error {
	for i := range d.widgets {
		w := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: d.ns, Name: widgetName(i)}}
		if err := d.client.Delete(ctx, w); err != nil {
			return err
		}
	}
	left := ""
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		var widgets WidgetList
		var children corev1.ConfigMapList
		if err := errors.Join(
			d.client.List(ctx, &widgets, client.InNamespace(d.ns)),
			d.client.List(ctx, &children, client.InNamespace(d.ns)),
		); err != nil {
			return false, err
		}
		left = ""
		for i := range widgets.Items {
			left += " widget/" + widgets.Items[i].Name
		}
		for i := range children.Items {
			// Other ConfigMaps, such as kube-root-ca.crt, are the server's own.
			if name := children.Items[i].Name; strings.HasPrefix(name, "widget-") {
				left += " configmap/" + name
			}
		}
		return left == "", nil
	})
	if err != nil {
		return fmt.Errorf("still there:%s: %w", left, err)
	}
	return nil
}

func (d *driver) checkSilence(ctx context.Context) error {
	select {
	case <-time.After(d.steady):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if offences := d.manager.sinceMark(); len(offences) > 0 {
		return fmt.Errorf("%d requests that should not have been needed:\n  %s", len(offences), strings.Join(offences, "\n  "))
	}
	return nil
}
