/* fs_shutdown.c MOUNTPOINT - stop a file system at once, as a power cut does:
 * nothing that is still in memory reaches the disk, the journal neither. ext4
 * and XFS share the number of the request. */
#define _GNU_SOURCE /* O_DIRECTORY */
#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define SHUTDOWN     _IOR('X', 125, uint32_t)
#define NO_LOG_FLUSH 2u

int main(int argc, char **argv)
{
    uint32_t how = NO_LOG_FLUSH;
    int fd = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;

    if (fd < 0 || ioctl(fd, SHUTDOWN, &how) != 0) {
        perror("shutdown");
        return 1;
    }
    return 0;
}
