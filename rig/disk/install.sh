# shellcheck shell=bash
# Runs in the guest on its first start, from outside the disk: what a distribution's installer does last.

# The rig's words make emulation quick and show the console; none is about the IOMMU.
words="console=ttyS0 panic=-1 nokaslr mitigations=off tsc=reliable clocksource=hpet no_timer_check"
words+=" init_on_alloc=0 no5lvl norandmaps loglevel=3"
kver=$(uname -r)

case $RIG_INSTALL in
    grub)
        sed -i -e 's/^GRUB_TIMEOUT=.*/GRUB_TIMEOUT=0/' \
            -e "s/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX=\"$words\"/" /etc/default/grub
        printf 'GRUB_TERMINAL=serial\nGRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"\n' >>/etc/default/grub
        grub-editenv - create
        update-grub && grub-script-check /boot/grub/grub.cfg && touch /run/rig/installed
        ;;
    systemd-boot)
        mkfs.vfat -n ESP /dev/vda1 >/dev/null && mount /boot/efi
        echo "root=/dev/vda2 $words" >/etc/kernel/cmdline
        bootctl --no-variables --make-entry-directory=yes install &&
            kernel-install add "$kver" "/boot/vmlinuz-$kver" && touch /run/rig/installed
        ;;
esac
sync
