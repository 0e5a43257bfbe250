package braid;

import java.io.BufferedWriter;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;

import io.delta.storage.CloseableIterator;
import io.delta.storage.LineCloseableIterator;
import io.delta.storage.LogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on a local disk: a commit is there whole or not at all, and never instead of another one.
 *
 * Delta's own stores look whether a version is taken and then rename onto it. Two processes that commit at once can
 * both find it free, and one of them loses its commit without being told. A hard link is refused by the kernel when
 * its name is taken. They also look at every file of the folder after each commit; here only the names are read, and
 * the files that were asked for are looked at.
 */
public final class LocalCommits extends LogStore {
    public LocalCommits(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> lines, Boolean overwrite, Configuration configuration)
        throws IOException {
        java.nio.file.Path target = local(path).toPath();
        java.nio.file.Path folder = target.getParent();
        if (!Files.isDirectory(folder)) {
            throw notFound(folder.toString());
        }
        if (!overwrite && Files.exists(target)) {
            throw new FileAlreadyExistsException(target.toString());
        }
        java.nio.file.Path draft = folder.resolve("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
        try {
            try (BufferedWriter writer = Files.newBufferedWriter(draft)) {
                while (lines.hasNext()) {
                    writer.write(lines.next());
                    writer.write('\n');
                }
            }
            if (overwrite) {
                // Hadoop would compare the new text with a checksum of the old one, left by another writer.
                Files.deleteIfExists(folder.resolve("." + target.getFileName() + ".crc"));
                Files.move(draft, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            } else {
                link(target, draft);
            }
        } finally {
            Files.deleteIfExists(draft);
        }
    }

    private static void link(java.nio.file.Path target, java.nio.file.Path draft) throws IOException {
        try {
            Files.createLink(target, draft);
        } catch (FileAlreadyExistsException taken) {
            throw taken;
        } catch (UnsupportedOperationException | FileSystemException refused) {
            throw new IOException(
                "a commit could not be linked into " + target.getParent() + " (" + refused.getMessage() + "): on a disk "
                    + "without hard links commits could be lost. Choose a folder on another disk.", refused);
        }
    }

    @Override
    public CloseableIterator<String> read(Path path, Configuration configuration) throws IOException {
        try {
            return new LineCloseableIterator(Files.newBufferedReader(local(path).toPath()));
        } catch (NoSuchFileException missing) {
            throw notFound(missing.getFile());
        }
    }

    @Override
    public Iterator<FileStatus> listFrom(Path path, Configuration configuration) throws IOException {
        File folder = local(path.getParent());
        String first = path.getName();
        String[] names = folder.list((parent, name) -> name.compareTo(first) >= 0);
        if (names == null) {
            throw notFound(folder.toString());
        }
        Arrays.sort(names);
        List<FileStatus> found = new ArrayList<>(names.length);
        for (String name : names) {
            File file = new File(folder, name);
            try {
                found.add(status(file, Files.readAttributes(file.toPath(), BasicFileAttributes.class)));
            } catch (NoSuchFileException gone) {
                // Since its name was read: whoever lists a moment later does not see it either.
                continue;
            }
        }
        return found.iterator();
    }

    private static FileStatus status(File file, BasicFileAttributes attributes) {
        // Not by way of a File's URI, which ends in a slash for a folder: Hadoop takes such a path to have no name.
        Path path = new Path("file", null, file.getPath());
        return new FileStatus(
            attributes.size(), attributes.isDirectory(), 1, 0, attributes.lastModifiedTime().toMillis(), path);
    }

    @Override
    public Path resolvePathOnPhysicalStorage(Path path, Configuration configuration) throws IOException {
        return path.getFileSystem(configuration).makeQualified(path);
    }

    @Override
    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return false;
    }

    private static File local(Path path) {
        return new File(path.toUri().getPath());
    }

    private static FileNotFoundException notFound(String path) {
        return new FileNotFoundException("No such file or directory: " + path);
    }
}
